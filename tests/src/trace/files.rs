//! The server's part in files, played by the lines of a trace.

use std::path::PathBuf;

use ownership::id::{ClientId, DownloadId};
use router::engine::io::{FileWork, Input, Kept, Place, RealPath};

use super::Runner;

impl Runner {
    pub(super) fn kept(&mut self, rest: &str) {
        let said = |text: &str| match text.strip_prefix('!') {
            Some(why) => Err(why.to_owned()),
            None => Ok(PathBuf::from(text)),
        };
        let (guid, rest) = rest.split_once(' ').expect("kept GUID …");
        let download = DownloadId::new(guid).expect("a guid");
        let (path, places) = rest.split_once(" c").unwrap_or((rest, ""));
        let place = |text: &str| {
            let (client, place) = text.split_once('=').expect("cN=PATH");
            (ClientId(client.trim_start_matches('c').parse().expect("a number")), said(place))
        };
        let placed = places.split('|').filter(|text| !text.is_empty()).map(place).collect();
        let outcome = said(path).map(|path| Kept { path, placed });
        self.input(Input::DownloadKept { download, outcome });
    }

    pub(super) fn found(&mut self, rest: &str) {
        let found = rest.split(' ').map(|text| match text.strip_prefix('!') {
            Some(why) => Err(why.to_owned()),
            None => {
                let mut paths = text.split('>').map(PathBuf::from);
                Ok(RealPath { path: paths.next().expect("a path"), links_to: paths.collect() })
            }
        });
        let request = self.looking.pop_front().expect("paths are looked for");
        self.input(Input::PathsFound { request, found: found.collect() });
    }

    pub(super) fn file_work(&mut self, work: FileWork) -> String {
        match work {
            FileWork::MakeTaskDir { name } => format!("make the directory of {name}"),
            FileWork::FindPaths { client, request, paths } => {
                self.looking.push_back(request);
                format!("find {paths:?} for c{}", client.0)
            }
            FileWork::Discard { written } => format!("discard {}", written.display()),
            FileWork::Keep(work) => {
                let place = |to: &Place| format!(" c{}={} {:?}", to.client.0, to.dir.display(), to.naming);
                let places: String = work.places.iter().map(place).collect();
                format!("keep {} {:?} of {}{places}", work.written.display(), work.suggested, work.task_name)
            }
        }
    }
}
