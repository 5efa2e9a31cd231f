"""What lies in memory beside the planned tensors: code, constants, tables, initial contents, an SDK's share."""
