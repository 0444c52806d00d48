//! Tails of three distributions, to about twelve digits.

/// P(Z >= z) of the standard normal distribution.
///
/// A power series near the centre, Laplace's continued fraction in the tail (Abramowitz and
/// Stegun 26.2.11 and 26.2.14).
pub fn normal_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - normal_tail(-z);
    }
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z < 3.0 {
        let mut term = z;
        let mut sum = z;
        let mut odd = 1.0;
        while term > sum * f64::EPSILON {
            odd += 2.0;
            term *= z * z / odd;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    let fraction = (1..=100)
        .rev()
        .fold(0.0, |fraction, k| f64::from(k) / (z + fraction));
    density / (z + fraction)
}

/// P(T >= t) of Student's distribution with `degrees` degrees of freedom, at least one.
///
/// The finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4.
pub fn student_tail(t: f64, degrees: u32) -> f64 {
    if t < 0.0 {
        return 1.0 - student_tail(-t, degrees);
    }
    let degrees = degrees.max(1);
    let angle = (t / f64::from(degrees).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    // The sum 1 + c cos² + c' cos⁴ + ... with as many terms as the degrees have.
    let series = |first: u32, terms: u32| {
        let mut term = 1.0;
        let mut sum = 1.0;
        for k in 1..terms {
            let above = f64::from(first + 2 * (k - 1));
            term *= above / (above + 1.0) * cosine * cosine;
            sum += term;
        }
        sum
    };
    let within = if degrees % 2 == 1 {
        let rest = if degrees == 1 {
            0.0
        } else {
            sine * cosine * series(2, (degrees - 1) / 2)
        };
        2.0 / std::f64::consts::PI * (angle + rest)
    } else {
        sine * series(1, degrees / 2)
    };
    0.5 * (1.0 - within)
}

/// The t with P(T >= t) = `tail`, for a tail of at most one half.
pub fn student_quantile(tail: f64, degrees: u32) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while student_tail(high, degrees) > tail && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if student_tail(middle, degrees) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// P(X <= k) of the number of heads of `n` fair coins.
pub fn binomial_tail(n: usize, k: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "there are few coins")]
    let number = |count: usize| count as f64;
    if k >= n {
        return 1.0;
    }
    // The logarithm of the smallest term, since 2^-n underflows long before the sum does.
    let mut logarithm = -number(n) * std::f64::consts::LN_2;
    let mut sum = logarithm.exp();
    for i in 0..k {
        logarithm += (number(n - i) / number(i + 1)).ln();
        sum += logarithm.exp();
    }
    sum.min(1.0)
}
