"""Where the memory goes: what is alive at the peak by line and by kind, compiled beside eager.

Eager is followed tensor by tensor, and inside of compiled graphs the allocations of Inductor's own wrapper count
(`child/`). So the numbers need neither memory nor a device: a model without weights has them, too.
"""
