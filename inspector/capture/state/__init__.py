"""What a call may change: attributes, globals, buffers, random states; copied, compared and put back.

Start in `world.py`.
"""
