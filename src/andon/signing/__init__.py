"""Signed tasks: a submitter signs its tasks, and workers run no others.

    app = Andon(signing_key="shop.pem")                    # signs whatever it submits
    await app.run_worker(trusted_keys=["shop.pem.pub"])    # refuses what is unsigned or altered

A worker with trusted keys looks at the signature before any code of the user's, middleware and
codecs among it. What is refused fails with reason `signature-refused` and is not retried.
Signatures are Ed25519; the bytes that are signed stand in docs/signing.md, so that any language can
make and check them. Keys are PEM files: `andon keys new`. Needs `andon[signing]`.
"""

from andon.model.errors import ConfigurationError

try:
    from andon.signing.checking import Refusal, TrustedKeys
    from andon.signing.keys import SigningKey, key_id
except ImportError as error:
    raise ConfigurationError(
        "Signed tasks need one more package: pip install 'andon[signing]'."
    ) from error

__all__ = ["Refusal", "SigningKey", "TrustedKeys", "key_id"]
