//! Tests of the battery itself: is every case there, and can every case fail?

use std::collections::BTreeSet;

use libtest_mimic::{Failed, Trial};

use crate::action::Action;
use crate::data::{cases, parse, required_ids};
use crate::expect::Expectation;
use crate::judge::judge;
use crate::observation::{Memory, Observation};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test(
            "every case of the contract is in the table",
            every_case_is_there,
        ),
        Trial::test(
            "a row with an unknown word is refused",
            unknown_words_are_refused,
        ),
        Trial::test("no step is content with nothing", nothing_satisfies_no_step),
    ]
}

fn every_case_is_there() -> Result<(), Failed> {
    let cases = cases()?;
    let there: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    let missing: Vec<_> = required_ids().difference(&there).copied().collect();
    if required_ids().len() < 100 || !missing.is_empty() {
        return Err(format!("missing: {missing:?} of {}", required_ids().len()).into());
    }
    Ok(())
}

fn unknown_words_are_refused() -> Result<(), Failed> {
    let good = ["C1", "6", "W0", "web.Z A", "udp", "NOERROR; answer=0"];
    let refused: [(usize, &str); 28] = [
        (1, "rule six"),
        (1, "99"),
        (2, "W2"),
        (2, "W0 hosts=odd"),
        (2, "W0 u1=late"),
        (3, "web.Z"),
        (3, "web A"),
        (3, "web.Z BOGUS"),
        (3, "do nothing"),
        (4, "sctp"),
        (4, "udp +frobnicate"),
        (4, "udp x"),
        (4, "udp one-write"),
        (4, "udp until=3"),
        (4, "udp raw=purple"),
        (5, "-"),
        (5, "answer=0"),
        (5, "NOERROR; NXDOMAIN"),
        (5, "NOERROR; answer=few"),
        (5, "NOERROR; answer={A}"),
        (5, "NOERROR; answers=0"),
        (5, "NOERROR; aa=yes"),
        (5, "NOERROR; metric=1"),
        (5, "NOERROR; closed=9s..11s"),
        (5, "NOERROR; earlier={A 192.0.2.1}"),
        (5, "NOERROR; first=varies"),
        (5, "NOERROR; ahead=web.Z/1s"),
        (5, "NOERROR;"),
    ];
    parse(&good.join("\t"))?;
    for (column, word) in refused {
        let mut row = good;
        if let Some(cell) = row.get_mut(column) {
            *cell = word;
        }
        if parse(&row.join("\t")).is_ok() {
            return Err(format!("column {column}: \"{word}\" was understood").into());
        }
    }
    for table in ["C1\t6\tW0\tweb.Z A\tudp", ".\t.\t.\tweb.Z A\tudp\tNOERROR"] {
        if parse(table).is_ok() {
            return Err(format!("\"{table}\" was understood").into());
        }
    }
    Ok(())
}

/// An observation of nothing must not be what a step expects: else the step cannot fail.
fn nothing_satisfies_no_step() -> Result<(), Failed> {
    for case in cases()? {
        for step in &case.steps {
            let nothing = Observation::default();
            for each in &step.expect {
                // That no upstream was asked, and that nothing came before, are true of nothing:
                // they stand beside an expectation that is not.
                let beside = matches!(each, Expectation::Upstream(_) | Expectation::Earlier(_));
                if !beside
                    && judge(std::slice::from_ref(each), &nothing, &mut Memory::default())
                        .is_empty()
                {
                    return Err(format!("{}: {each:?} holds for nothing", case.id).into());
                }
            }
            if matches!(step.action, Action::Ask(_))
                && step
                    .expect
                    .iter()
                    .all(|each| matches!(each, Expectation::Upstream(_)))
                && !step.expect.is_empty()
            {
                return Err(format!("{} says nothing of the reply", case.id).into());
            }
        }
    }
    Ok(())
}
