"""Rules of today on the same engines and texts, by kind of traffic; held out by construction."""
