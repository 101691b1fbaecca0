"""From accepted requests to batches: queues with policies, and the rules by which a batch is formed."""
