"""vLLM with several API server processes, as `vllm serve --api-server-count` starts it.

The module that the engine container runs ignores that flag, and the `vllm` command of the CPU build does
not start, so the function behind it is called here. Run by the engine's Python, not by pytest.
"""

from __future__ import annotations

from vllm.entrypoints.cli.serve import run_multi_api_server
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
from vllm.utils.argparse_utils import FlexibleArgumentParser

if __name__ == "__main__":
    cli_env_setup()
    arguments = make_arg_parser(FlexibleArgumentParser()).parse_args()
    validate_parsed_serve_args(arguments)
    run_multi_api_server(arguments)
