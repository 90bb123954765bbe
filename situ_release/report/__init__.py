"""Documents for reviewers, approvals, and the gate to publication."""
