"""Which answers count as different, and which cannot be compared."""

from pasture_tools.trial.responses import (
    UrlAnswers,
    always_failing,
    compared_bodies,
    disagreements,
    merge,
)


def _one(statuses: dict[int, int], bodies: dict[str, int]) -> dict[str, UrlAnswers]:
    return {"GET /": UrlAnswers(statuses, bodies)}


def test_a_status_that_the_reference_never_gave_is_a_difference() -> None:
    found = disagreements(_one({200: 5}, {"aa": 5}), _one({200: 4, 500: 1}, {"aa": 4, "ee": 1}))

    assert [(d.url, d.what, d.expected, d.found) for d in found] == [
        ("GET /", "status", "200", "500")
    ]


def test_no_answer_at_all_is_a_difference_with_its_own_words() -> None:
    refused = {"GET /": UrlAnswers({0: 1}, {}, error="refused")}

    (found,) = disagreements(_one({200: 5}, {"aa": 5}), merge([refused]))

    assert str(found) == "GET /: status no answer (refused) instead of 200"


def test_a_rarer_status_of_the_reference_may_stay_away() -> None:
    assert (
        disagreements(_one({200: 5, 304: 1}, {"aa": 5, "bb": 1}), _one({304: 2}, {"bb": 2})) == ()
    )


def test_another_body_is_a_difference_where_the_reference_repeats_one() -> None:
    (found,) = disagreements(_one({200: 5}, {"aa": 5}), _one({200: 5}, {"aa": 4, "bb": 1}))

    assert (found.what, found.expected, found.found) == ("body", "aa", "bb")


def test_bodies_that_vary_within_the_reference_are_not_compared() -> None:
    assert disagreements(_one({200: 2}, {"aa": 1, "bb": 1}), _one({200: 1}, {"cc": 1})) == ()


def test_a_body_seen_once_proves_nothing() -> None:
    assert disagreements(_one({200: 1}, {"aa": 1}), _one({200: 1}, {"bb": 1})) == ()


def test_a_url_that_the_reference_never_requested_is_not_compared() -> None:
    assert disagreements({}, _one({500: 1}, {})) == ()


def test_merged_runs_show_what_varies_between_them() -> None:
    merged = merge([_one({200: 3}, {"aa": 3}), _one({200: 3}, {"bb": 3})])

    assert merged["GET /"].statuses == {200: 6}
    assert merged["GET /"].only_body is None


def test_only_urls_that_never_worked_are_always_failing() -> None:
    answers = {
        "GET /ok": UrlAnswers({200: 2}, {}),
        "GET /shaky": UrlAnswers({200: 1, 503: 1}, {}),
        "GET /broken": UrlAnswers({500: 2, 0: 1}, {}),
        "GET /gone": UrlAnswers({404: 2}, {}),
    }

    assert list(always_failing(answers)) == ["GET /broken"]
    assert answers["GET /shaky"].failures == 1


def test_a_request_that_timed_out_is_a_failure_and_no_difference() -> None:
    late = {"GET /": UrlAnswers({200: 1}, {"aa": 1}, timeouts=2)}
    all_late = {"GET /": UrlAnswers({}, {}, timeouts=2)}
    reference = _one({200: 5}, {"aa": 5})

    assert disagreements(reference, late) == disagreements(reference, all_late) == ()
    assert disagreements(all_late, reference) == ()
    assert late["GET /"].failures == 2
    assert merge([late, all_late])["GET /"].timeouts == 4
    assert list(always_failing(all_late)) == ["GET /"]


def _tokens(skeletons: dict[str, int]) -> dict[str, UrlAnswers]:
    """Answers whose bodies hold another token each."""
    bodies = {f"{number:02}": 1 for number in range(sum(skeletons.values()))}
    return {"GET /": UrlAnswers({200: len(bodies)}, bodies, skeletons=skeletons)}


def test_a_body_with_a_token_is_compared_by_its_structure() -> None:
    assert disagreements(_tokens({"12 tags": 5}), _tokens({"12 tags": 3})) == ()
    (found,) = disagreements(_tokens({"12 tags": 5}), _tokens({"12 tags": 2, "1 tag": 1}))

    assert str(found) == "GET /: body 1 tag instead of 12 tags"


def test_a_structure_that_varies_within_the_reference_or_was_seen_once_is_not_compared() -> None:
    varying = merge([_tokens({"12 tags": 3}), _tokens({"13 tags": 1})])
    assert disagreements(varying, _tokens({"1 tag": 3})) == ()
    assert disagreements(_tokens({"12 tags": 1}), _tokens({"1 tag": 3})) == ()


def test_the_bodies_that_were_compared_are_counted_by_how() -> None:
    answers = {
        "GET /": UrlAnswers({200: 5}, {"aa": 5}, skeletons={"12 tags": 5}),
        "GET /login": UrlAnswers({200: 2}, {"aa": 1, "bb": 1}, skeletons={"12 tags": 2}),
        "GET /random": UrlAnswers({200: 2}, {"aa": 1, "bb": 1}, skeletons={"1 tag": 1, "2": 1}),
    }
    said = str(compared_bodies(answers))
    assert said == "bodies: 1 compared byte for byte, 1 by structure, 1 not"
