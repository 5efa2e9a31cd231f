"""What the C library offers, as data: one row a kernel. The planner and the writers of C ask here; C never chooses."""
