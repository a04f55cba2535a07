"""Bytecode before and after Dynamo.

`reconstruct.py` turns bytecode into Python, and proves it by the steps that `symbolic_machine.py` finds in both;
`inserted_bytecode.py` explains what torch inserted. Start in `bytecode_view.py`.
"""
