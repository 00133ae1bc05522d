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
            // The annotation says that the bits are those of an unsigned number.
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

/// Writes the cells that are there, and for every row whether there is one.
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
