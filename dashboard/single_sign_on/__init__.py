"""Log in by an OpenID Connect provider, with django-allauth. Nothing of it is there unless it is
configured (EVENKEEL_SSO_ISSUER).

configuration: what is configured, and which groups of the provider give which roles. asking: what
is read from the provider, within bounds. provider: allauth's flow with state, PKCE and nonce, up to
who somebody is. people: who of them gets in, as which user, with which grants.
"""
