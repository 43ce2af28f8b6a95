"""Audits: what a corpus gives away without being listened to, and what its parts share."""
