"""What each policy does at the hooks of the kernels (hooks.py): one file per policy; policy.py lists the hooks."""
