"""The domain of the verl regression: configuration, commands, parsers, judgement, results. It imports no Airflow."""
