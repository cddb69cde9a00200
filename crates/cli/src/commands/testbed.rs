//! `narrows testbed`: four virtual machines in a line.

use crate::args::{Testbed, TestbedCommand};
use crate::status::Outcome;

#[cfg(not(target_os = "linux"))]
pub fn testbed(_: &Testbed) -> Outcome {
    let why = "a testbed's machines are started and set up on Linux, and this is not Linux";
    Err(narrows::Error::Engine(why.to_owned()).into())
}

#[cfg(target_os = "linux")]
pub fn testbed(args: &Testbed) -> Outcome {
    match &args.command {
        TestbedCommand::Run(args) => here::run(args),
        TestbedCommand::Seed(args) => here::seed(args),
        TestbedCommand::Image(args) => here::image(args),
        TestbedCommand::Serve(args) => here::serve(args),
    }
}

#[cfg(target_os = "linux")]
mod here {
    use std::fs;
    use std::io::Write;
    use std::path::Path;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use narrows::results::folder::Folder;
    use narrows::testbed::{
        Hypervisor, Image, Line, Program, RELEASE, Testbed, TestbedOptions, Webhook, seeds, volume,
    };
    use narrows::{Error, Secret, descriptors, files};
    use serde_json::json;

    use crate::args::{Format, TestbedImage, TestbedRun, TestbedSeed, TestbedServe};
    use crate::commands::output;
    use crate::output::{message, on_a_line, print, print_json};
    use crate::progress::cancel_flag;
    use crate::status::{Failure, Outcome, Status};

    /// How often it is looked whether machines that stay have ended.
    const LOOK: Duration = Duration::from_millis(200);

    fn line(scenario: &str, sets: &[String]) -> Result<Line, Failure> {
        let (plan, notes) = descriptors::plan(scenario, sets)?;
        for note in &notes {
            message!("narrows: {}", on_a_line(note));
        }
        Ok(Line::of(plan)?)
    }

    fn program(path: Option<&Path>) -> Result<Program, Error> {
        path.map_or_else(Program::own, Program::read)
    }

    pub(super) fn run(args: &TestbedRun) -> Outcome {
        let line = line(&args.scenario, &args.sets)?;
        let program = program(args.program.as_deref())?;
        let image = match &args.image {
            Some(path) => Image::open(path)?,
            None => own_image()?,
        };
        let hypervisor = match args.without_kvm {
            true => Hypervisor::Tcg,
            false => Hypervisor::usable(),
        };
        if hypervisor == Hypervisor::Tcg && !args.without_kvm {
            message!(
                "narrows: no KVM that this user may use: QEMU runs the machines itself, some ten times slower"
            );
        }
        let options = TestbedOptions {
            image,
            program,
            hypervisor,
            memory_mib: args.memory,
            patience: Duration::from_nanos(args.wait.as_nanos()),
        };
        // Before anything starts: a run is not lost for a folder that cannot be had.
        let folder = Folder::create(&output(args.out.as_deref()), line.name())?;
        let cancel = cancel_flag();
        let say = |text: &str| message!("narrows: {text}");
        let Some(mut testbed) = Testbed::start(line, options, cancel, &say)? else {
            return Ok(Status::Interrupted);
        };
        let report = testbed.run(cancel, &say)?;
        for note in &report.left_out {
            message!("narrows: {}", on_a_line(note));
        }
        if let Some(folder) = &folder {
            testbed.write(&report, folder)?;
        }
        match args.format {
            Format::Text => print(&report.to_string()),
            Format::Json => print_json(&json!(report)),
        }
        if let Some(folder) = &folder {
            message!("results in {}", folder.dir().display());
        }
        let status = match (cancel.load(Ordering::SeqCst), report.complete) {
            (true, _) => Status::Interrupted,
            (false, true) => Status::Done,
            (false, false) => Status::Failed,
        };
        if args.keep && status == Status::Done {
            hold(&mut testbed)?;
        }
        Ok(status)
    }

    /// Leaves the machines up until Ctrl-C.
    fn hold(testbed: &mut Testbed) -> Result<(), Error> {
        for (role, address) in testbed.addresses() {
            print(&format!("{role}: http://{address}/api/v1/state"));
        }
        print(&format!("Authorization: Bearer {}", testbed.token()));
        message!(
            "narrows: the machines stay until Ctrl-C; consoles are in {}",
            testbed.folder().display()
        );
        while !cancel_flag().load(Ordering::SeqCst) {
            testbed.check()?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The disk that is kept, made where there is none.
    fn own_image() -> Result<Image, Error> {
        let folder = Image::kept(RELEASE).ok_or_else(|| {
            let why = "found neither a home nor XDG_CACHE_HOME; --image names a disk";
            Error::Refused(why.to_owned())
        })?;
        if !folder.exists() {
            message!(
                "narrows: making a disk of {RELEASE} in {}, once",
                folder.display()
            );
            Image::make(&folder, RELEASE)?;
        }
        Image::open(&folder)
    }

    pub(super) fn image(args: &TestbedImage) -> Outcome {
        Image::make(&args.dir, &args.release)?;
        Ok(Status::Done)
    }

    pub(super) fn seed(args: &TestbedSeed) -> Outcome {
        let line = line(&args.scenario, &args.sets)?;
        let program = program(args.program.as_deref())?;
        let io = |verb, path: &Path| {
            let path = path.to_path_buf();
            move |source| Error::Io { verb, path, source }
        };
        let engine = |e: std::io::Error| Error::Engine(format!("a token: {e}"));
        let (webhook, traffic) = match &args.tokens {
            None => (
                Secret::draw().map_err(engine)?,
                Secret::draw().map_err(engine)?,
            ),
            Some(path) => {
                let text = fs::read_to_string(path).map_err(io("read", path))?;
                let mut lines = text.lines();
                let mut token = || {
                    let token = Secret::of(lines.next().unwrap_or_default());
                    token.map_err(|e| Error::Refused(format!("--tokens {}: {e}", path.display())))
                };
                (token()?, token()?)
            }
        };
        let (seeds, left_out) = seeds(&line, &program, &webhook, &traffic)?;
        for note in &left_out {
            message!("narrows: {}", on_a_line(note));
        }
        let out = &args.out;
        files::create_dir(out).map_err(io("create", out))?;
        // They hold tokens.
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(out, own).map_err(io("create", out))?;
        for (role, seed) in seeds {
            let folder = out.join(role.word());
            files::create_dir(&folder).map_err(io("create", &folder))?;
            for file in &seed {
                write(&folder.join(file.name), &file.bytes)?;
            }
            let disk = volume(&seed).map_err(io("write", out))?;
            write(&out.join(format!("{role}.img")), &disk)?;
        }
        print(&format!("{}", out.display()));
        Ok(Status::Done)
    }

    fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let io = |verb| {
            let path = path.to_path_buf();
            move |source| Error::Io { verb, path, source }
        };
        let mut file = files::create_new(path).map_err(io("create"))?;
        file.write_all(bytes).map_err(io("write"))
    }

    pub(super) fn serve(args: &TestbedServe) -> Outcome {
        let orders = Webhook::orders(&args.orders)?;
        let text = fs::read_to_string(&args.token).map_err(Error::input(&args.token))?;
        let token = Secret::of(&text)
            .map_err(|e| Error::Refused(format!("--token {}: {e}", args.token.display())))?;
        let webhook = Webhook::bind(orders, token, args.listen);
        let webhook =
            webhook.map_err(|e| Error::Engine(format!("cannot listen at {}: {e}", args.listen)))?;
        let address = webhook.address();
        let address = address.map_err(|e| Error::Engine(format!("its address: {e}")))?;
        message!("narrows: the webhook is at {address} until Ctrl-C");
        webhook.serve(cancel_flag())?;
        Ok(Status::Done)
    }
}
