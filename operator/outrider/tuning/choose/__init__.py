"""Which K for each batch bin, and what forbids it."""
