# Short names for what developers do all day.

# Format, lint, test: what CI does.
ci:
    bash .ci/run

# Every test.
test *ARGS:
    ./kw test {{ARGS}}

# The tests that take under three minutes together, built.
quick:
    cargo nextest run --profile quick --workspace

# Rewrite the OpenAPI snapshot and the dashboard's build.
bless:
    KERNELWRIGHT_BLESS=1 cargo test -p server openapi
    tests/dashboard build
