"""The commands behind the Makefile."""

from __future__ import annotations

import argparse
import os
import sys
import time

from rich.console import Console

from include.localstack import demo, doctor, stack
from include.localstack.settings import LOGIN, Settings, StackError
from include.regression.config import Catalogue, ConfigError, draft
from include.regression.plan import matrix, plan, why_not_applicable
from include.regression.report import tables
from include.regression.report.comparison import compare
from include.regression.store import DatabaseDown, migrate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m include.localstack", description=__doc__)
    parser.add_argument("--began", type=float, default=time.time(), help="when the user's command began (Unix time)")
    actions = parser.add_subparsers(dest="action", required=True)
    for name in ("up", "down", "status", "logs", "migrate"):
        actions.add_parser(name)
    demo_parser = actions.add_parser("demo")
    demo_parser.add_argument("--suite", default="tiny_grpo_cpu")
    demo_parser.add_argument("--release")
    demo_parser.add_argument("--cluster")
    airflow_parser = actions.add_parser("airflow")
    airflow_parser.add_argument("command", nargs=argparse.REMAINDER, help="arguments of Airflow's own command line")
    plan_parser = actions.add_parser("plan")
    plan_parser.add_argument("--suite", default="tiny_grpo_cpu")
    plan_parser.add_argument("--release")
    plan_parser.add_argument("--cluster")
    doctor_parser = actions.add_parser("doctor")
    doctor_parser.add_argument("--cluster", default="laptop")
    doctor_parser.add_argument("--suite")
    doctor_parser.add_argument("--release")
    actions.add_parser("matrix")
    compare_parser = actions.add_parser("compare")
    compare_parser.add_argument("--suite", default="tiny_grpo_cpu")
    compare_parser.add_argument("releases", nargs="*", help="default: all that have a judged run")
    arguments = parser.parse_args()
    try:
        return run(arguments)
    except (StackError, ConfigError, DatabaseDown) as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 2


def run(arguments: argparse.Namespace) -> int:
    settings = Settings.from_environment()
    match arguments.action:
        case "migrate":
            migrate()
        case "up":
            stack.up(settings)
            print(f"UI {settings.url}  login {LOGIN} / {settings.password()}")
        case "down":
            stack.down(settings)
        case "status":
            return 0 if stack.status(settings) else 1
        case "logs":
            print(f"{settings.airflow_log}\n{settings.node_log}")
        case "airflow":
            environment = stack.prepare_environment(settings)
            os.execvpe("airflow", ["airflow", *arguments.command], environment)
        case "compare":
            stack.use_results(settings)
            Console().print(tables.comparison(compare(arguments.suite, arguments.releases)))
        case "doctor":
            return doctor.run(settings, arguments.cluster, arguments.suite, arguments.release)
        case "plan":
            os.environ.setdefault("VERL_REGRESSION_WORK_DIR", str(settings.work_dir))
            spec = draft(Catalogue(), "RUN", arguments.suite, arguments.release, arguments.cluster)
            reason = why_not_applicable(spec)
            print(f"not applicable, because {reason}" if reason else plan(spec))
        case "matrix":
            os.environ.setdefault("VERL_REGRESSION_WORK_DIR", str(settings.work_dir))
            Console().print(tables.matrix(matrix(Catalogue())))
        case "demo":
            conf = {key: value for key in ("release", "cluster") if (value := getattr(arguments, key))}
            # Bad input is refused here, in the terminal, before anything is started; the DAG's first task checks again.
            os.environ.setdefault("VERL_REGRESSION_WORK_DIR", str(settings.work_dir))
            reason = why_not_applicable(draft(Catalogue(), "check", arguments.suite, **conf))
            if reason:
                raise StackError(f"suite {arguments.suite} is not applicable to this release, because {reason}")
            stack.up(settings)
            return demo.run(settings, arguments.suite, conf, arguments.began)
    return 0


if __name__ == "__main__":
    sys.exit(main())
