//! `tabwarden reload`. When a file is wrong, everything stays as it was, and the exit code is not 0.

use crate::api_client::ApiClient;
use crate::args::ServerArgs;
use crate::exit::Failure;
use crate::output;

pub async fn run(args: ServerArgs) -> Result<(), Failure> {
    let done = ApiClient::find(&args)?.call("POST", "reload", None).await?;
    if args.json {
        output::line(&done.to_string());
    } else {
        output::line(&format!(
            "The policies were read anew: {} tasks have them, {} pages were released.",
            done["tasks"], done["released_pages"]
        ));
    }
    Ok(())
}
