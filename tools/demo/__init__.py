"""The product, shown: each step runs real commands on a real dev cluster and checks their answers."""
