//! Kernels in virtual time: built from a package or a tree, kept, listed and removed.

pub use narrows_kernel::survey::{self, Tool};
pub use narrows_kernel::{
    BuildError, BuildOptions, BuildProgress, BuildWatch, BuiltKernel, Change, Outcome, Source,
    Store, StoreError, changes,
};

/// Builds a kernel into the user's store; one that is there already is not built again.
///
/// # Errors
/// See [`BuildError`].
pub fn build(options: &BuildOptions, watch: &BuildWatch<'_>) -> Result<Outcome, BuildError> {
    narrows_kernel::build(&Store::of_user()?, options, watch)
}

/// The kernels of the user's store, those built last first.
///
/// # Errors
/// When the store cannot be read.
pub fn list() -> Result<Vec<BuiltKernel>, StoreError> {
    Store::of_user()?.list()
}

/// Which kernels are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Those with these ids.
    Ids(Vec<String>),
    /// All that there are.
    All,
}

/// Removes kernels from the user's store, and what builds that were killed have left in it;
/// answers the ids of the kernels. Nothing is removed where one of the ids is none.
///
/// # Errors
/// When an id is none, or a kernel cannot be removed.
pub fn remove(selection: &Selection) -> Result<Vec<String>, StoreError> {
    let store = Store::of_user()?;
    let ids = match selection {
        Selection::All => store.ids()?,
        Selection::Ids(ids) => {
            for id in ids {
                store.check(id)?;
            }
            ids.clone()
        }
    };
    for id in &ids {
        store.remove(id)?;
    }
    store.tidy()?;
    Ok(ids)
}
