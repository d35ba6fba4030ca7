"""The product, shown: each step runs real commands on a real dev cluster and checks what they answer. Knows only the dev cluster."""
