"""Every inner name of SGLang that the plugin uses, one module per seam."""
