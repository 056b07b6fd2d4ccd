"""What the chapters use and do not teach: figure style, units, the claim ledger, data files."""
