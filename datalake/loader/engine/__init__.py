"""What makes batches: ahead of the trainer, in recycled memory, watched.

assembly   one step's batch
trouble    rows that make no example
ahead      steps worked on ahead, in order, within budgets
planner    what is read before a batch is begun, ahead of it
watchdog   waiting for threads, never in silence
threads    threads that nothing waits for at the end
buffers    memory used over and over
tensors    numpy to tensors: in this process, in a worker, on a device
stats      what the stream did
shuffle    how well it is shuffled
"""
