//! Index arithmetic of a kernel: how far an index reaches, and by how many elements each index steps.

use std::collections::BTreeMap;

use super::arithmetic::Arith;

/// The names of a kernel and their meaning.
pub(super) struct Scope {
    /// Integer parameters, over dims.
    pub parameters: BTreeMap<String, Arith>,
    /// Local variables with one value.
    pub locals: BTreeMap<String, Arith>,
    /// Values that a variable stays below, from comparisons in the kernel.
    pub limits: BTreeMap<String, Arith>,
    /// Template parameters and constants of the file.
    pub constants: BTreeMap<String, Arith>,
    pub grid: [Arith; 3],
    pub block: [Arith; 3],
}

/// A sum of products: the factors that are dims, the factors that are indices, the coefficient.
type Terms = BTreeMap<(Vec<String>, Vec<String>), i64>;

/// One index of an access: the elements between two of its values, and the name of the index.
#[derive(Debug, Clone, PartialEq)]
struct Stride {
    coefficient: i64,
    dims: Vec<String>,
    indices: Vec<Arith>,
}

impl Scope {
    /// The value over dims and numbers alone, if it is one.
    pub fn over_dims(&self, value: &Arith) -> Option<Arith> {
        let resolved = value.resolve(&|name| self.constant(name));
        let known = resolved.names().iter().all(|name| self.is_dim(name));
        (known && resolved.opaque().is_none()).then(|| resolved.with_ceilings())
    }

    /// The definition of a name that is no index.
    fn constant(&self, name: &str) -> Option<Arith> {
        let extent = |of: &str, extents: &[Arith; 3]| {
            let axis = name.strip_prefix(of)?;
            ["x", "y", "z"]
                .iter()
                .position(|known| *known == axis)
                .map(|at| extents[at].clone())
        };
        if let Some(value) = self.parameters.get(name) {
            return (*value != Arith::Name(name.to_owned())).then(|| value.clone());
        }
        extent("blockDim.", &self.block)
            .or_else(|| extent("gridDim.", &self.grid))
            .or_else(|| self.constants.get(name).cloned())
            .or_else(|| {
                let value = self.locals.get(name)?;
                self.over_dims(value)
            })
    }

    fn is_dim(&self, name: &str) -> bool {
        let named = |value: &Arith| value.names().contains(name);
        self.parameters.values().any(named) || self.grid.iter().chain(&self.block).any(named)
    }

    /// The number of values of an index from 0, over dims.
    pub fn bound(&self, index: &Arith) -> Option<Arith> {
        match index {
            Arith::Name(name) => {
                if let Some(limit) = self.limits.get(name) {
                    return Some(limit.clone());
                }
                let axis = |of: &str| {
                    let axis = name.strip_prefix(of)?;
                    ["x", "y", "z"].iter().position(|known| *known == axis)
                };
                if let Some(at) = axis("blockIdx.") {
                    return Some(self.grid[at].clone());
                }
                if let Some(at) = axis("threadIdx.") {
                    return Some(self.block[at].clone());
                }
                self.bound(self.locals.get(name)?)
            }
            Arith::Binary('%', _, divisor) => self.over_dims(divisor),
            Arith::Binary('/', left, divisor) => {
                let divisor = self.over_dims(divisor)?;
                Some(divide(&self.bound(left)?, &divisor))
            }
            Arith::Binary('+' | '-', left, right) => {
                // The block's index times its threads, plus the thread's index.
                if let (Arith::Binary('*', block, threads), Arith::Name(thread)) =
                    (&**left, &**right)
                    && thread.starts_with("threadIdx.")
                    && let (Some(blocks), Some(threads)) =
                        (self.bound(block), self.over_dims(threads))
                {
                    return Some(divide(
                        &Arith::binary('*', blocks, threads),
                        &Arith::Number(1),
                    ));
                }
                match (self.over_dims(left), self.over_dims(right)) {
                    (None, Some(_)) => self.bound(left),
                    (Some(_), None) => self.bound(right),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The extents that an access with this index needs, outermost first.
    pub fn extents(&self, index: &Arith) -> Option<Vec<Arith>> {
        let mut strides = self.strides(index)?;
        strides.sort_by_key(|stride| (stride.dims.len(), stride.coefficient));
        let first = strides.first()?;
        let mut extents = Vec::new();
        let step = first.coefficient;
        if !first.dims.is_empty() {
            // Every access is to the first element of a row.
            extents.push(product(first.coefficient, &first.dims));
        }
        for (at, stride) in strides.iter().enumerate() {
            let extent = match strides.get(at + 1) {
                Some(next) => {
                    let ratio = next.coefficient.checked_div(stride.coefficient)?;
                    let exact = ratio * stride.coefficient == next.coefficient;
                    let mut dims = next.dims.clone();
                    for dim in &stride.dims {
                        let place = dims.iter().position(|known| known == dim)?;
                        dims.remove(place);
                    }
                    if !exact {
                        return None;
                    }
                    let ratio = if at == 0 && first.dims.is_empty() {
                        ratio * step
                    } else {
                        ratio
                    };
                    product(ratio, &dims)
                }
                None => {
                    let bounds = stride.indices.iter().filter_map(|index| self.bound(index));
                    let bound = bounds.max_by_key(|bound| bound.names().len())?;
                    let alone = at == 0 && first.dims.is_empty();
                    if alone && step > 1 {
                        divide(
                            &Arith::binary('*', bound, Arith::Number(step)),
                            &Arith::Number(1),
                        )
                    } else {
                        bound
                    }
                }
            };
            extents.push(extent);
        }
        // The extents so far are in the order of growing strides, except for a leading row length.
        extents.reverse();
        Some(extents)
    }

    fn strides(&self, index: &Arith) -> Option<Vec<Stride>> {
        let mut names = BTreeMap::new();
        let terms = self.terms(index, &mut names)?;
        let mut strides: Vec<Stride> = Vec::new();
        for ((dims, indices), coefficient) in terms {
            let [index] = indices.as_slice() else {
                if indices.is_empty() {
                    continue;
                }
                return None;
            };
            let index = names.get(index).cloned()?;
            let same =
                |stride: &&mut Stride| stride.dims == dims && stride.coefficient == coefficient;
            match strides.iter_mut().find(same) {
                Some(stride) => stride.indices.push(index),
                None => strides.push(Stride {
                    coefficient,
                    dims,
                    indices: vec![index],
                }),
            }
        }
        if strides.is_empty() {
            // The access is to one element.
            strides.push(Stride {
                coefficient: 1,
                dims: Vec::new(),
                indices: vec![Arith::Binary(
                    '%',
                    Box::new(Arith::Number(0)),
                    Box::new(Arith::Number(1)),
                )],
            });
        }
        Some(strides)
    }

    fn terms(&self, value: &Arith, names: &mut BTreeMap<String, Arith>) -> Option<Terms> {
        if let Some(value) = self.over_dims(value) {
            return dim_terms(&value);
        }
        match value {
            Arith::Name(name) if !self.limits.contains_key(name) => {
                let linear = self.locals.get(name).filter(|value| is_linear(value));
                match linear {
                    Some(value) => self.terms(value, names),
                    None => Some(index_term(value, names)),
                }
            }
            Arith::Binary('+' | '-', left, right) => {
                let mut terms = self.terms(left, names)?;
                let sign = if matches!(value, Arith::Binary('-', ..)) {
                    -1
                } else {
                    1
                };
                for (key, coefficient) in self.terms(right, names)? {
                    *terms.entry(key).or_default() += sign * coefficient;
                }
                terms.retain(|_, coefficient| *coefficient != 0);
                Some(terms)
            }
            Arith::Binary('*', left, right) => {
                let (left, right) = (self.terms(left, names)?, self.terms(right, names)?);
                multiply(&left, &right)
            }
            _ => Some(index_term(value, names)),
        }
    }
}

fn is_linear(value: &Arith) -> bool {
    match value {
        Arith::Binary('/' | '%', ..) | Arith::Call(..) | Arith::Opaque(_) => false,
        Arith::Binary(_, left, right) => is_linear(left) && is_linear(right),
        Arith::Name(_) | Arith::Number(_) => true,
    }
}

fn index_term(index: &Arith, names: &mut BTreeMap<String, Arith>) -> Terms {
    let name = index.to_cpp();
    names.insert(name.clone(), index.clone());
    Terms::from([((Vec::new(), vec![name]), 1)])
}

/// A value over dims as a sum of products.
fn dim_terms(value: &Arith) -> Option<Terms> {
    Some(match value {
        Arith::Number(0) => Terms::new(),
        Arith::Number(value) => Terms::from([((Vec::new(), Vec::new()), *value)]),
        Arith::Binary('+' | '-', left, right) => {
            let mut terms = dim_terms(left)?;
            let sign = if matches!(value, Arith::Binary('-', ..)) {
                -1
            } else {
                1
            };
            for (key, coefficient) in dim_terms(right)? {
                *terms.entry(key).or_default() += sign * coefficient;
            }
            terms
        }
        Arith::Binary('*', left, right) => multiply(&dim_terms(left)?, &dim_terms(right)?)?,
        other => Terms::from([((vec![other.to_plan()], Vec::new()), 1)]),
    })
}

fn multiply(left: &Terms, right: &Terms) -> Option<Terms> {
    let mut product = Terms::new();
    for ((left_dims, left_indices), left) in left {
        for ((right_dims, right_indices), right) in right {
            let mut coefficient = left.checked_mul(*right)?;
            let mut dims = [left_dims.clone(), right_dims.clone()].concat();
            // A quotient by a divisor of the coefficient: 4 * (C / 4) is C, where 4 divides C.
            for dim in &mut dims {
                let quotient = dim.rsplit_once(" / ");
                let quotient = quotient.and_then(|(of, by)| Some((of, by.parse::<i64>().ok()?)));
                if let Some((of, by)) = quotient
                    && coefficient % by == 0
                {
                    coefficient /= by;
                    *dim = of.to_owned();
                }
            }
            dims.sort();
            let mut indices = [left_indices.clone(), right_indices.clone()].concat();
            indices.sort();
            *product.entry((dims, indices)).or_default() += coefficient;
        }
    }
    Some(product)
}

fn product(coefficient: i64, dims: &[String]) -> Arith {
    let names = dims.iter().map(|dim| Arith::Name(dim.clone()));
    let product = names.reduce(|left, right| Arith::binary('*', left, right));
    match (product, coefficient) {
        (None, _) => Arith::Number(coefficient),
        (Some(product), 1) => product,
        (Some(product), _) => Arith::binary('*', Arith::Number(coefficient), product),
    }
}

/// The quotient of two values over dims; the factors that both have are left out.
pub(super) fn divide(value: &Arith, divisor: &Arith) -> Arith {
    let whole = || {
        let (value, divisor) = (Box::new(value.clone()), Box::new(divisor.clone()));
        Arith::Call("cdiv", value, divisor)
    };
    let (Some(value), Some(divisor)) = (dim_terms(value), dim_terms(divisor)) else {
        return whole();
    };
    let single = |terms: &Terms| match terms.iter().next() {
        Some(((dims, _), coefficient)) if terms.len() == 1 => Some((dims.clone(), *coefficient)),
        _ => None,
    };
    let (Some((mut dims, top)), Some((by, bottom))) = (single(&value), single(&divisor)) else {
        return whole();
    };
    for dim in &by {
        match dims.iter().position(|known| known == dim) {
            Some(at) => {
                dims.remove(at);
            }
            None => return whole(),
        }
    }
    if top % bottom != 0 {
        return whole();
    }
    // Blocks of a rounded-up count times the threads of one: the count before it was rounded up.
    let coefficient = top / bottom;
    if let [dim] = dims.as_slice()
        && let Some(inner) = dim
            .strip_prefix("cdiv(")
            .and_then(|text| text.strip_suffix(')'))
        && let Some((of, threads)) = inner.rsplit_once(", ")
        && threads.parse::<i64>().ok() == Some(coefficient)
    {
        return product(1, &[of.to_owned()]);
    }
    product(coefficient, &dims)
}
