//! The ratios that the agent is held to, in one table at the end.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use crate::results::{Results, shown};

/// The section of the table in the documentation.
const SECTION: &str = "goals";

/// One ratio of the agent's to another server's, or a plain value without one.
struct Goal {
    what: &'static str,
    section: &'static str,
    measure: &'static str,
    to: Option<&'static str>,
    /// At most this.
    goal: f64,
    /// What would be better still.
    stretch: Option<f64>,
}

impl Goal {
    const fn ratio(
        what: &'static str,
        section: &'static str,
        measure: &'static str,
        to: &'static str,
        goal: f64,
        stretch: Option<f64>,
    ) -> Self {
        Self {
            what,
            section,
            measure,
            to: Some(to),
            goal,
            stretch,
        }
    }

    const fn none_lost(section: &'static str) -> Self {
        Self {
            what: "queries lost",
            section,
            measure: "lost",
            to: None,
            goal: 0.0,
            stretch: None,
        }
    }

    /// The median, and the least and the most of the rounds.
    fn measured(&self, results: &Results) -> Option<[f64; 3]> {
        let own = results.rounds(self.section, "tsunaro", self.measure)?;
        let Some(to) = self.to else {
            let most = own.iter().copied().fold(0.0, f64::max);
            // One query lost in any round is lost.
            return Some([most, own.iter().copied().fold(most, f64::min), most]);
        };
        let other = results.rounds(self.section, to, self.measure)?;
        let median = results.median(self.section, "tsunaro", self.measure)
            / results.median(self.section, to, self.measure);
        let each = own.iter().zip(other).map(|(own, other)| own / other);
        let (least, most) = each.fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| {
            (least.min(ratio), most.max(ratio))
        });
        Some([median, least, most])
    }
}

const LOCAL: &str = "local";
const HITS: &str = "cache hits";
const MISSES: &str = "cache misses";
const MANY: &str = "reload of 100,000 names";
const MILLION: &str = "reload of 1,000,000 names";
const START: &str = "start";
const HOSTS: &str = "CoreDNS hosts";
const FORWARD: &str = "CoreDNS forward";

#[rustfmt::skip]
const GOALS: [Goal; 20] = [
    Goal::ratio("CPU, saturated", LOCAL, "cpu", HOSTS, 0.40, Some(0.32)),
    Goal::ratio("CPU, saturated", LOCAL, "cpu", "NSD", 1.0, Some(0.85)),
    Goal::ratio("CPU, saturated", LOCAL, "cpu", "UDP echo", 1.2, Some(1.05)),
    Goal::ratio("CPU at 10,000 a second", LOCAL, "cpu10k", HOSTS, 0.35, Some(0.27)),
    Goal::ratio("CPU at 10,000 a second", LOCAL, "cpu10k", "NSD", 1.0, Some(0.88)),
    Goal::ratio("user CPU, saturated", LOCAL, "user", "NSD", 1.0, Some(0.40)),
    Goal::ratio("CPU, saturated", HITS, "cpu", FORWARD, 0.40, Some(0.34)),
    Goal::ratio("CPU, saturated", HITS, "cpu", "unbound", 1.0, Some(0.83)),
    Goal::ratio("CPU", MISSES, "cpu", FORWARD, 0.50, Some(0.36)),
    Goal::ratio("added p50", MISSES, "added", FORWARD, 0.60, Some(0.40)),
    Goal::none_lost("reload of 1000 names"),
    Goal::none_lost(MANY),
    Goal::ratio("time to new data", MANY, "after", "NSD", 0.30, None),
    Goal::ratio("peak RSS", MANY, "peak", HOSTS, 0.25, Some(0.16)),
    Goal::none_lost(MILLION),
    Goal::ratio("time to new data", MILLION, "after", "NSD", 0.30, None),
    Goal::ratio("peak RSS", MILLION, "peak", HOSTS, 0.25, Some(0.16)),
    Goal::ratio("start to first answer", START, "first", HOSTS, 0.15, Some(0.08)),
    Goal::ratio("RSS at rest", START, "rss", HOSTS, 0.20, Some(0.09)),
    Goal::ratio("stripped program", START, "size", HOSTS, 0.15, Some(0.04)),
];

/// Prints what was measured of the goals, and how many were missed. Only a whole run goes into the
/// documentation: `whole`.
pub(crate) fn print(results: &mut Results, whole: bool) -> usize {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "section",
        "what",
        "compared with",
        "measured",
        "rounds",
        "goal",
        "stretch",
        "held?",
    ]);
    let (mut measured, mut missed) = (0, 0);
    for goal in &GOALS {
        let Some([value, least, most]) = goal.measured(results) else {
            continue;
        };
        measured += 1;
        let verdict = if goal.stretch.is_some_and(|stretch| value <= stretch) {
            "held, stretch too"
        } else if value <= goal.goal {
            "held"
        } else {
            missed += 1;
            "MISSED"
        };
        // One more for what was measured, lest .15 be above a goal of .15.
        let decimals = if goal.to.is_some() { 2 } else { 0 };
        table.add_row([
            goal.section.to_owned(),
            goal.what.to_owned(),
            goal.to.unwrap_or("–").to_owned(),
            shown(value, decimals + decimals / 2),
            format!("{} to {}", shown(least, decimals), shown(most, decimals)),
            shown(goal.goal, decimals),
            goal.stretch
                .map_or("–".to_owned(), |stretch| shown(stretch, decimals)),
            verdict.to_owned(),
        ]);
    }
    for column in table.column_iter_mut().skip(3).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let text = format!(
        "{} of {measured} goals held. Measured: the agent's median divided by the other server's; \
         less is better. Rounds: the least and the most of one round by itself.\n\n{table}",
        measured - missed
    );
    if whole {
        results.say(SECTION, &text);
    } else if measured > 0 {
        println!("\n{text}");
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::awake::Cores;

    fn measured(own: [f64; 3], other: [f64; 3]) -> (usize, Results) {
        let mut results = Results::new(Cores::AsTheyAre(std::io::ErrorKind::Other.into()));
        for (own, other) in own.into_iter().zip(other) {
            results.add(LOCAL, "tsunaro", "cpu10k", own);
            results.add(LOCAL, HOSTS, "cpu10k", other);
        }
        (print(&mut results, false), results)
    }

    #[test]
    fn a_goal_is_held_by_the_median_and_missed_above_it() {
        assert_eq!(measured([3.0, 3.5, 9.0], [10.0; 3]).0, 0);
        assert_eq!(measured([3.0, 3.51, 3.6], [10.0; 3]).0, 1);
    }

    #[test]
    fn a_query_lost_in_one_round_of_many_is_a_goal_missed() {
        let mut results = Results::new(Cores::AsTheyAre(std::io::ErrorKind::Other.into()));
        for lost in [0.0, 1.0, 0.0] {
            results.add(MANY, "tsunaro", "lost", lost);
        }
        assert_eq!(print(&mut results, false), 1);
    }

    #[test]
    fn a_server_that_never_answered_is_no_goal_held() {
        let (missed, results) = measured([f64::INFINITY; 3], [10.0; 3]);
        assert_eq!(missed, 1);
        assert!(results.rounds(LOCAL, "NSD", "cpu10k").is_none());
    }
}
