"""What extends Airflow itself: the timetable, which the scheduler must be able to load."""

from airflow.plugins_manager import AirflowPlugin

from verl_regression.timetables.releases import ReleaseTimetable


class VerlRegressionPlugin(AirflowPlugin):
    """The project's Airflow plug-in."""

    name = "verl_regression"
    timetables = [ReleaseTimetable]
