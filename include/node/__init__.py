"""What is copied to a node and runs there, as ``python -m node.<script>`` from the run's kit folder.

Standard library only (a node has nothing installed when the first of them runs), except :mod:`node.tiny_task` and
:mod:`node.check_weights`, which run in the training environment. Each prints for people on stdout and writes its result,
one JSON object, to the file named by ``RESULT_FILE``.
"""
