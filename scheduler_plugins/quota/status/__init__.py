"""What ElasticQuotas say of themselves: what is in use, and what is wrong with them. And whether the ledger is right.

Writes to nothing but the status of ElasticQuotas, and Events. Decides nothing: admission never reads a status.
"""
