//! Numbers, their medians, and the tables that people read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use crate::awake::Cores;

/// Everything measured: by section, server and measure, one value a round.
pub(crate) struct Results {
    values: BTreeMap<(String, String, &'static str), Vec<f64>>,
    began: jiff::Timestamp,
    /// The machine's load average before the first measurement.
    load: Option<String>,
    cores: Cores,
    /// What people read, by section.
    texts: BTreeMap<String, String>,
}

/// A column of a table.
pub(crate) struct Column {
    pub(crate) measure: &'static str,
    pub(crate) title: &'static str,
    pub(crate) decimals: usize,
}

/// A ratio of a measure to another server's.
#[derive(Clone, Copy)]
pub(crate) struct Ratio {
    pub(crate) measure: &'static str,
    pub(crate) to: &'static str,
}

impl Ratio {
    /// The ratio of this measure to each of these servers'.
    pub(crate) fn each(measure: &'static str, servers: &[&'static str]) -> Vec<Self> {
        servers.iter().map(|to| Self { measure, to }).collect()
    }

    fn title(&self, columns: &[Column]) -> String {
        let of = columns
            .iter()
            .find(|column| column.measure == self.measure)
            .map_or("", |column| column.title);
        format!("{of} × {}", self.to)
    }
}

impl Results {
    pub(crate) fn new(cores: Cores) -> Self {
        Self {
            values: BTreeMap::new(),
            began: jiff::Timestamp::now(),
            load: fs::read_to_string("/proc/loadavg")
                .ok()
                .and_then(|text| text.split(' ').next().map(str::to_owned)),
            cores,
            texts: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, section: &str, server: &str, measure: &'static str, value: f64) {
        self.values
            .entry((section.to_owned(), server.to_owned(), measure))
            .or_default()
            .push(value);
    }

    /// What the rounds measured, in their order; none when there was no such measurement.
    pub(crate) fn rounds(
        &self,
        section: &str,
        server: &str,
        measure: &'static str,
    ) -> Option<&[f64]> {
        let key = (section.to_owned(), server.to_owned(), measure);
        self.values.get(&key).map(Vec::as_slice)
    }

    /// The median of the rounds.
    pub(crate) fn median(&self, section: &str, server: &str, measure: &'static str) -> f64 {
        let rounds = self.rounds(section, server, measure);
        let mut values = rounds.unwrap_or_default().to_vec();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Prints one section's table, a line a server in the given order.
    pub(crate) fn print(
        &mut self,
        section: &str,
        about: &str,
        servers: &[&str],
        columns: &[Column],
        ratios: &[Ratio],
    ) {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        let titles = columns.iter().map(|column| column.title.to_owned());
        let compared = ratios.iter().map(|ratio| ratio.title(columns));
        table.set_header(
            std::iter::once(section.to_owned())
                .chain(titles)
                .chain(compared),
        );
        for server in servers {
            let mut row = vec![(*server).to_owned()];
            for column in columns {
                row.push(shown(
                    self.median(section, server, column.measure),
                    column.decimals,
                ));
            }
            for ratio in ratios {
                let other = self.median(section, ratio.to, ratio.measure);
                row.push(shown(
                    self.median(section, server, ratio.measure) / other,
                    2,
                ));
            }
            table.add_row(row);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        self.say(section, &format!("{about}\n\n{table}"));
    }

    /// Prints a paragraph of a section.
    pub(crate) fn say(&mut self, section: &str, text: &str) {
        println!("\n{text}");
        let all = self.texts.entry(section.to_owned()).or_default();
        all.push_str(text);
        all.push_str("\n\n");
    }

    /// Replaces the sections measured in a Markdown file, where they stand between
    /// `<!-- measured: SECTION -->` and `<!-- end -->`.
    pub(crate) fn write_into(&self, path: &Path) -> Result<()> {
        let mut document = fs::read_to_string(path)?;
        for (section, text) in &self.texts {
            let begin = format!("<!-- measured: {section} -->\n");
            let Some((before, rest)) = document.split_once(&begin) else {
                bail!("{} has no place for {section}: {begin}", path.display());
            };
            let Some((_, after)) = rest.split_once("<!-- end -->") else {
                bail!("{}: {section} has no end", path.display());
            };
            document = format!(
                "{before}{begin}{}. {text}<!-- end -->{after}",
                self.machine()?
            );
        }
        Ok(fs::write(path, document)?)
    }

    /// When and where.
    pub(crate) fn machine(&self) -> Result<String> {
        let cpu = fs::read_to_string("/proc/cpuinfo")?;
        let model = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .map(|rest| rest.trim_start_matches([' ', '\t', ':']))
            .unwrap_or("unknown processor");
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        Ok(format!(
            "{}, two of {} cores, {model}, Linux {}, load average {} at the start, {}",
            self.began.strftime("%Y-%m-%d %H:%M UTC"),
            cpu.matches("processor\t").count(),
            kernel.trim(),
            self.load.as_deref().unwrap_or("unknown"),
            self.cores.said()
        ))
    }

    /// All values, for machines.
    pub(crate) fn json(&self) -> Result<String> {
        let mut sections = serde_json::Map::new();
        for ((section, server, measure), values) in &self.values {
            sections
                .entry(section.clone())
                .or_insert_with(|| serde_json::json!({}))
                .as_object_mut()
                .map(|servers| {
                    servers
                        .entry(server.clone())
                        .or_insert_with(|| serde_json::json!({}))
                        .as_object_mut()
                        .map(|measures| {
                            measures.insert((*measure).to_owned(), serde_json::json!(values))
                        })
                });
        }
        Ok(serde_json::to_string_pretty(&serde_json::json!({
            "began": self.began.to_string(),
            "machine": self.machine()?,
            "sections": sections,
        }))?)
    }
}

pub(crate) fn shown(value: f64, decimals: usize) -> String {
    if value.is_finite() {
        format!("{value:.decimals$}")
    } else {
        "–".to_owned()
    }
}
