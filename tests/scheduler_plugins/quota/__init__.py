"""Quotas, their ledger and admission."""
