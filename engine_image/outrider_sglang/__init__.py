"""SGLang plugin: the control API of `outrider_engine` in SGLang's scheduler and HTTP server."""
