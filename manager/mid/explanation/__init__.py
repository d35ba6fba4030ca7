"""The explanation of a node's Mid resources: every term with its inputs, in words. The CLI and the web page show it."""
