//! A table as a Parquet file, with its columns' types.

use crate::ReportError;
use ::parquet::basic::{LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::Type;
use std::sync::Arc;
use wavelane_measure::{Cells, Column, Table};

/// The bytes of the file.
pub fn parquet(table: &Table) -> Result<Vec<u8>, ReportError> {
    file(table).map_err(|e| ReportError::Parquet(e.to_string()))
}

fn file(table: &Table) -> Result<Vec<u8>, ParquetError> {
    let fields = table.columns().iter().map(field).collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder("table").with_fields(fields).build()?;
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::default())?;
    let mut group = writer.next_row_group()?;
    for column in table.columns() {
        let Some(to) = group.next_column()? else { break };
        match &column.cells {
            // The annotation marks the bits as an unsigned number.
            Cells::Counts(all) => put::<Int64Type, u64>(to, all, |n| n.cast_signed())?,
            Cells::Numbers(all) => put::<DoubleType, f64>(to, all, |n| *n)?,
            Cells::Texts(all) => put::<ByteArrayType, String>(to, all, |t| ByteArray::from(t.as_str()))?,
        }
    }
    group.close()?;
    writer.into_inner()
}

fn field(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match column.cells {
        Cells::Counts(_) => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Cells::Numbers(_) => (Physical::DOUBLE, None),
        Cells::Texts(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let field = Type::primitive_type_builder(&column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(field))
}

/// Writes the existing cells, and for every row whether there is one.
fn put<T: DataType, C>(
    mut to: SerializedColumnWriter<'_>,
    cells: &[Option<C>],
    value: impl Fn(&C) -> T::T,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = cells.iter().flatten().map(value).collect();
    let present: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    to.typed::<T>().write_batch(&values, Some(&present), None)?;
    to.close()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;

    #[test]
    fn what_is_written_is_read_back_with_its_types() {
        let column = |name: &str, cells| Column { name: name.to_owned(), cells };
        let table = Table::new(vec![
            column("packets_a2b", Cells::Counts(vec![Some(0), None, Some(u64::MAX)])),
            column("RTT_avg_a2b", Cells::Numbers(vec![None, Some(-0.5), Some(1e300)])),
            column("host_a", Cells::Texts(vec![Some("a,\"b\"".to_owned()), Some(String::new()), None])),
        ]);
        let path = std::env::temp_dir().join(format!("wavelane-parquet-{}", std::process::id()));
        std::fs::write(&path, parquet(&table).unwrap()).unwrap();
        let reader = SerializedFileReader::try_from(path.as_path()).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().into_columns());
        let rows: Vec<Vec<Field>> = rows.map(|row| row.into_iter().map(|(_, field)| field).collect()).collect();
        let names: Vec<&str> = table.columns().iter().map(|column| column.name.as_str()).collect();
        let schema = reader.metadata().file_metadata().schema_descr();
        assert!(schema.columns().iter().map(|column| column.name()).eq(names));
        std::fs::remove_file(path).unwrap();
        assert_eq!(
            rows,
            [
                [Field::ULong(0), Field::Null, Field::Str("a,\"b\"".to_owned())],
                [Field::Null, Field::Double(-0.5), Field::Str(String::new())],
                [Field::ULong(u64::MAX), Field::Double(1e300), Field::Null],
            ]
        );
    }
}
