//! Builds the world of a scenario file, says how long that took, and takes it
//! down again: `world FILE [--own-user-namespace] [--times N] [--survey]`.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    match linux::main() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("error: the live engine runs on Linux only");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::time::Instant;

    use narrows_linux::{RunId, become_root_of_own_user_namespace, machine};
    use narrows_live::World;

    pub fn main() -> Result<(), Box<dyn Error>> {
        let (mut files, mut times) = (Vec::new(), 1);
        let (mut own_namespace, mut survey) = (false, false);
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--own-user-namespace" => own_namespace = true,
                "--survey" => survey = true,
                "--times" => times = arguments.next().unwrap_or_default().parse()?,
                _ => files.push(argument),
            }
        }
        if own_namespace {
            become_root_of_own_user_namespace()?;
        }
        if survey {
            let machine = machine::survey();
            machine.findings.iter().for_each(|f| println!("{f}"));
        }
        for file in files {
            let plan = narrows_scenario::load(&file).and_then(|l| l.draft()?.check())?;
            for _ in 0..times {
                let started = Instant::now();
                let world = World::build(&plan, &RunId::random())?;
                let built = started.elapsed();
                let run = world.run_id().clone();
                drop(world);
                let down = started.elapsed() - built;
                println!("{run}: set-up {built:?}, tear-down {down:?}");
            }
        }
        Ok(())
    }
}
