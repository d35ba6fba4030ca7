"""Why a node has the Mid resources it has: every term with its inputs, in words. The CLI and the web page show it."""
