"""The cases. Each module is one: `jobs` lists what to measure, `run` measures one job in a process of its own,
`tables` and `figures` show the rows. See `bench/case.py`.
"""
