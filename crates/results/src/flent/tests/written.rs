//! Where the files are written.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::campaign::{CampaignResult, CellResult};
use crate::folder::{CampaignFolder, FORMAT, Folder};

#[test]
fn the_file_of_a_run_lies_in_its_folder_or_where_it_is_wanted() {
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut of = run(
        vec![up("a")],
        json!([]),
        &[],
        vec![goodput("a", &[(0.25, 1.0)])],
    );
    of.dir = Some(own.path().to_owned());
    let bytes = to_gz(&of).unwrap().unwrap();
    let results = |run: &RunResult| Results::Run(Box::new(run.clone()));
    let below = other.path().join("new");
    for (out, dir) in [(None, own.path()), (Some(below.as_path()), &below)] {
        let files = write(&results(&of), out).unwrap();
        assert_eq!(files, [dir.join(FILE)]);
        assert_eq!(std::fs::read(&files[0]).unwrap(), bytes);
    }
    of.series.tracks.clear();
    let refused = write(&results(&of), None).unwrap_err().to_string();
    assert!(refused.contains("there are no data to write"), "{refused}");
}

#[test]
fn a_campaign_has_a_file_for_each_cell_whose_folder_was_kept() {
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tracks = vec![goodput("a", &[(0.25, 1.0), (0.5, 2.0)])];
    let mut of = run(vec![up("a")], json!([]), &[], tracks);
    of.record.format = FORMAT;
    of.record.kind = "run".to_owned();
    for cell in ["cells/a", "cells/b"] {
        let folder = Folder::at(own.path().join(cell)).unwrap();
        folder
            .write_run(&mut of, false, &AtomicBool::new(false))
            .unwrap();
    }
    // Of one no folder was kept, and that of another was removed since.
    let cells = ["cells/a", "", "cells/gone", "cells/b"].map(|folder| CellResult {
        folder: folder.to_owned(),
        ..CellResult::default()
    });
    let campaign = Results::Campaign(Box::new(CampaignFolder {
        dir: own.path().to_owned(),
        result: CampaignResult {
            cells: cells.to_vec(),
            ..CampaignResult::default()
        },
        ..CampaignFolder::default()
    }));
    for (out, dir) in [(None, own.path()), (Some(other.path()), other.path())] {
        let files = write(&campaign, out).unwrap();
        let expected = ["cells/a", "cells/b"].map(|cell| dir.join(cell).join(FILE));
        assert_eq!(files, expected);
        assert!(files.iter().all(|file| file.is_file()));
    }
}
