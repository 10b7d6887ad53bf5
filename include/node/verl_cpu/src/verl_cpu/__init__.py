"""verl on a CPU: the plug-in that the ``cpu`` cluster kind installs into its training environment.

It is inert unless ``VERL_PLATFORM=cpu`` is set. Each module is one workaround, named where it is made:

* :mod:`verl_cpu.platform`: the verl Platform "cpu" (device calls, gloo, the Ray resource name);
* :mod:`verl_cpu.vllm_plugin`: keeps vLLM's weights writable, so that verl can sync into them;
* :mod:`verl_cpu.replay_buffer`: the v1 trainer's replay buffer with a poll interval fit for steps of seconds;
* :mod:`verl_cpu.reward`: the rule reward of the tiny arithmetic task.
"""
