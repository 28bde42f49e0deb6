"""What the speculation of a profile is judged by."""

from service.profiles.profile import Profile
from service.sglang.acceptance import Terms, terms_of


def speculation_terms(profile: Profile) -> Terms:
    """Return the terms: the profile's own floor, else a hint by its arguments."""
    return terms_of(
        profile.server_args, profile.env, model_path=profile.model_path, own_floor=profile.limits.min_accept_length
    )
