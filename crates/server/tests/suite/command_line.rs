use std::path::Path;

use clap::{CommandFactory as _, Parser as _};
use domain::search::Method;
use server::cli::{Cli, Command, ModelCommand, TaskCommand, WorkerCommand};
use server::models;
use server::outcome::{Failure, Outcome};

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command)
}

#[test]
fn the_grammar_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_service_listens_on_loopback_and_keeps_its_state_beside_the_project() {
    let Ok(Command::Serve(args)) = parse("kernelwright serve --with-local-worker") else {
        panic!("serve");
    };
    assert_eq!(args.listen.to_string(), "127.0.0.1:8787");
    assert_eq!(args.models.folder.data.to_str(), Some(".kernelwright"));
    assert!(args.with_local_worker);
}

#[test]
fn a_run_takes_a_task_a_method_a_budget_and_a_target() {
    let line = "kernelwright run kernels/attention-f16 --method external --budget-trials 9 --follow --promote-to /repo --promote-base main";
    let Ok(Command::Run(args)) = parse(line) else {
        panic!("run");
    };
    assert_eq!(args.task, "kernels/attention-f16");
    assert_eq!(args.search_method(), Method::External);
    assert_eq!(args.budget_trials, Some(9));
    assert_eq!(args.promote_base.as_deref(), Some("main"));
    assert!(args.follow && !args.json);
}

#[test]
fn the_default_method_asks_models_if_one_is_named() {
    for (options, expected) in [
        ("", Method::Playbook),
        ("--model luna", Method::Adaptive),
        ("--model luna --method best-of", Method::BestOf),
    ] {
        let Ok(Command::Run(args)) = parse(&format!("kernelwright run t {options}")) else {
            panic!("run");
        };
        assert_eq!(args.search_method(), expected, "{options}");
    }
}

#[test]
fn an_evaluation_takes_settings_of_tunables() {
    let line = "kernelwright eval k.cu --task kernels/t --set KV_SPLITS=16 --set BLOCK=-1 --json";
    let Ok(Command::Eval(args)) = parse(line) else {
        panic!("eval");
    };
    let expected = [("KV_SPLITS".to_owned(), 16), ("BLOCK".to_owned(), -1)];
    assert_eq!(args.kernel.settings, expected);
}

#[test]
fn ids_are_taken_with_and_without_their_prefix() {
    let uuid = "01938e5a-0000-7000-8000-000000000001";
    let bare = parse(&format!("kernelwright context {uuid}"));
    let prefixed = parse(&format!("kernelwright context run_{uuid}"));
    assert_eq!(bare.unwrap(), prefixed.unwrap());
}

#[test]
fn the_other_verbs_parse() {
    let uuid = "01938e5a-0000-7000-8000-000000000001";
    let submit = parse(&format!(
        "kernelwright submit {uuid} k.cu --hypothesis h --parent {uuid} --wait"
    ));
    assert!(matches!(submit, Ok(Command::Submit(args)) if args.wait && args.parent.is_some()));
    let join = parse("kernelwright worker join http://127.0.0.1:8787 --name bench");
    assert!(
        matches!(join, Ok(Command::Worker(WorkerCommand::Join(args))) if args.name.as_deref() == Some("bench"))
    );
    let devices = parse("kernelwright devices --server http://127.0.0.1:8787 --json");
    assert!(
        matches!(devices, Ok(Command::Devices(args)) if args.json && args.service.server.is_some())
    );
    let check = parse("kernelwright task check kernels/t --evaluate");
    assert!(matches!(check, Ok(Command::Task(TaskCommand::Check(args))) if args.evaluate));
    let nightly = parse("kernelwright eval k.cu --task t --champion --rounds 8");
    assert!(
        matches!(nightly, Ok(Command::Eval(args)) if args.champion && !args.confirm && args.rounds == 8)
    );
    let thrice = parse("kernelwright eval k.cu --task t --confirm --rounds 3");
    assert!(matches!(thrice, Ok(Command::Eval(args)) if args.confirm && args.rounds == 3));
    assert!(
        matches!(parse("kernelwright demo --new"), Ok(Command::Demo(args)) if args.new && args.listen.is_none())
    );
}

#[test]
fn the_model_is_scored_with_the_kernels_arguments_in_order() {
    let line = "kernelwright score-model c.json --source k.cu --arg f32*64*64 --arg i32=64 --grid-div-x bx,tx --blocks 8";
    let Ok(Command::ScoreModel(args)) = parse(line) else {
        panic!("score-model");
    };
    assert_eq!(args.arguments.len(), 2);
    assert_eq!(
        args.grid_div_x,
        Some(vec!["bx".to_owned(), "tx".to_owned()])
    );
    assert_eq!(args.block, ["block_size_x", "block_size_y", "block_size_z"]);
    assert_eq!((args.blocks, args.limit, args.json), (8, None, false));

    let line = "kernelwright score-model c.json --source k.cu --arg f32*64 --block MDIMC,NDIMC,one";
    let Ok(Command::ScoreModel(args)) = parse(line) else {
        panic!("score-model with the names of a block");
    };
    assert_eq!(args.block, ["MDIMC", "NDIMC", "one"]);

    let line = "kernelwright score-model --sessions list.toml --sources kernels --only gemm --json";
    let Ok(Command::ScoreModel(args)) = parse(line) else {
        panic!("score-model of a list");
    };
    assert_eq!((args.cache.as_ref(), args.only.len()), (None, 1));
}

#[test]
fn mistakes_are_refused_before_anything_is_done() {
    for line in [
        "kernelwright run t --method guess",
        "kernelwright run t --promote-base main",
        "kernelwright eval k.cu",
        "kernelwright eval k.cu --task t --rounds 8",
        "kernelwright eval k.cu --task t --confirm --champion",
        "kernelwright task check t --read-only --evaluate",
        "kernelwright eval k.cu --task t --set KV_SPLITS",
        "kernelwright eval k.cu --task t --set KV_SPLITS=many",
        "kernelwright serve --listen here",
        "kernelwright score-model c.json --source k.cu",
        "kernelwright score-model c.json --source k.cu --arg f32",
        "kernelwright score-model --sessions list.toml",
        "kernelwright score-model c.json --sessions list.toml --sources kernels",
        "kernelwright score-model --sessions list.toml --sources kernels --device a100",
        "kernelwright score-model c.json --source k.cu --arg f32*64 --only gemm",
        "kernelwright context not-an-id",
        "kernelwright context cand_01938e5a-0000-7000-8000-000000000001",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn exit_codes_are_as_documented() {
    let trouble = || anyhow::anyhow!("trouble");
    assert_eq!(Outcome::Accepted.code(), 0);
    assert_eq!(Outcome::NotAccepted.code(), 1);
    assert_eq!(Failure::input(trouble()).code(), 2);
    assert_eq!(Failure::infrastructure(trouble()).code(), 3);
}

#[test]
fn roles_are_hidden_from_the_help() {
    let help = Cli::command().render_help().to_string();
    assert!(help.contains("demo") && !help.contains("role"), "{help}");
    let long = Cli::command().render_long_help().to_string();
    assert!(long.contains("Exit codes"), "{long}");
}

#[test]
fn the_models_are_named_by_a_file() {
    let check = parse("kernelwright model check fast --models m.toml --data d --json");
    let Ok(Command::Model(ModelCommand::Check(args))) = check else {
        panic!("model check");
    };
    assert_eq!(args.name, "fast");
    assert_eq!(args.file.models.as_deref(), Some(Path::new("m.toml")));
    assert!(args.json);

    let data = tempfile::tempdir().unwrap();
    assert_eq!(models::find(None, data.path()), None);
    let own = data.path().join("models.toml");
    std::fs::write(&own, "").unwrap();
    assert_eq!(models::find(None, data.path()), Some(own));
    let asked = Path::new("elsewhere.toml");
    assert_eq!(
        models::find(Some(asked), data.path()),
        Some(asked.to_owned())
    );
}

#[test]
fn a_pack_is_an_agents_and_not_json() {
    let uuid = "01938e5a-0000-7000-8000-000000000001";
    let Ok(Command::Context(args)) = parse(&format!("kernelwright context {uuid} --pack work"))
    else {
        panic!("context");
    };
    assert_eq!(args.pack.as_deref(), Some(Path::new("work")));
    assert!(parse(&format!("kernelwright context {uuid} --pack work --json")).is_err());
    let Ok(Command::Mcp(args)) = parse("kernelwright mcp --server http://127.0.0.1:1") else {
        panic!("mcp");
    };
    assert_eq!((args.run, args.proposer), (None, None));
}
