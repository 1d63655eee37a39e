/** Breakdown of usage by model, key, team, owner, upstream, or user: a table, and a CSV file. */
import { useState } from 'preact/hooks'
import { toCsv } from '../../domain/text.ts'
import { USAGE_FIGURE_NAMES, USAGE_FIGURES, type UsageFigureName } from '../../domain/usage-figures.ts'
import { query, setQuery, toHrefWith } from '../address/address.ts'
import { useNewest } from '../api/loaded.ts'
import { toDelta } from '../figures/figures.ts'
import { toRequests } from '../reports/narrow.tsx'
import { Button } from '../ui/controls.tsx'
import { Money, None, Sparkline } from '../ui/figure.tsx'
import { Problem } from '../ui/notice.tsx'
import { type Column, More, STEP, Table, toDrawn } from '../ui/table.tsx'
import { GROUPS, type Group, type Overview, toGroup, useBreakdown, useLines } from './data.ts'
import { type BrokenDown, NANO } from './figures.ts'
import { Compared, UsageValue } from './panels.tsx'
import { toSpan } from './range.ts'
import { save } from './save.ts'

const FEW = 8

export function Breakdown({ of }: { of: Overview }) {
  const by = toGroup(query.value.get('by'))
  return (
    <section class="panel breakdown" aria-labelledby="breakdown">
      <header class="chart-head">
        <h2 id="breakdown">Breakdown</h2>
        {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for forms */}
        <div class="ranges" role="group" aria-label="Group by">
          {Object.entries(GROUPS).map(([name, title]) => (
            <button
              key={name}
              type="button"
              class="range"
              aria-pressed={name === by}
              onClick={() => setQuery({ by: name }, 'push')}
            >
              {title}
            </button>
          ))}
        </div>
      </header>
      <Rows key={by} {...{ by, of }} />
    </section>
  )
}

function Rows({ by, of }: { by: Group; of: Overview }) {
  const { data, problem, reload } = useBreakdown(by, of)
  const rows = useNewest(data)
  const [most, setMost] = useState(FEW)
  if (rows === null)
    return problem ? <Problem of={problem} retry={reload} /> : <div class="room-of-breakdown" aria-busy />
  if (rows.length === 0) return <p class="dim">No requests in this period.</p>
  return <Drawn {...{ by, of, rows, most, setMost }} />
}

interface DrawnProps {
  by: Group
  of: Overview
  rows: readonly BrokenDown[]
  most: number
  setMost(most: number): void
}

function Drawn({ by, of, rows, most, setMost }: DrawnProps) {
  const columns = toColumns(by, of)
  const drawn = toDrawn(columns, rows, most)
  const ids = drawn
    .flatMap(({ id }) => id ?? [])
    .slice(0, MAX_LINES)
    .sort()
  const lines = useNewest(useLines(by, of, ids).data)
  const withLines: Column<BrokenDown>[] = hasLines(by)
    ? [
        ...columns,
        {
          ...{ name: 'trend', title: 'Trend', isOnPhone: false },
          cell: ({ id, name }) => {
            const line = (lines?.get(String(id)) ?? []).map(Number)
            return line.length > 1 ? (
              <Sparkline values={line} label={`${name} over time`} />
            ) : (
              <span class="sparkline" />
            )
          },
        },
      ]
    : columns
  return (
    <>
      <Table caption={`Usage by ${by}`} columns={withLines} rows={rows} idOf={toRowId} most={most} />
      <p class="chart-tools">
        {rows.length > most && <More rows={rows.length} most={most} setMost={setMost} />}
        <Button kind="quiet" onClick={() => saveRows(by, columns, drawn)}>
          CSV of rows shown
        </Button>
        {drawn.length < rows.length && (
          <Button kind="quiet" onClick={() => saveRows(by, columns, toDrawn(columns, rows))}>
            CSV of all {rows.length}
          </Button>
        )}
      </p>
    </>
  )
}

/** Maximum that fits into a URL. */
const MAX_LINES = Math.min(50, STEP)
const hasLines = (by: Group) => by !== 'owner' && by !== 'user'
const toRowId = ({ id, name }: BrokenDown) => id ?? name

/** Columns of the CSV file; figures come from their definition. */
type ExportedColumn = Column<BrokenDown> & { toCells(row: BrokenDown): Record<string, string | number | null> }

const toColumns = (by: Group, of: Overview): ExportedColumn[] => [
  {
    ...{ name: 'name', title: GROUPS[by], sortBy: ({ name }) => name },
    cell: (row) => <Name {...{ by, of, row }} />,
    toCells: ({ id, name }) => ({ [GROUPS[by]]: name, ...(id === name || id === null ? {} : { ID: id }) }),
  },
  ...USAGE_FIGURE_NAMES.map((name): ExportedColumn => toFigureColumn(name, by, of)),
  {
    ...{ name: 'change', title: 'Cost change', isFigure: true, sortBy: ({ change }) => change, isOnPhone: true },
    cell: ({ figures, before, change }) => <Change {...{ before, change }} now={figures.cost_nano_usd ?? 0} of={of} />,
    toCells: ({ change }) => ({ 'Cost change (USD)': change / NANO }),
  },
]

const UNITS = { count: '', money: ' (USD)', share: '' } as const

function toFigureColumn(name: UsageFigureName, by: Group, of: Overview): ExportedColumn {
  const { title, kind } = USAGE_FIGURES[name]
  return {
    ...{ name, title, isFigure: true, sortBy: ({ figures }) => figures[name] ?? -1 },
    isOnPhone: name === 'cost_nano_usd' || name === 'requests',
    cell: (row) => {
      const value = row.figures[name]
      if (value === null) return <None />
      const shown = <UsageValue {...{ name, value }} isEstimated={row.isEstimated} />
      const href = name === 'requests' ? toBehind(by, of, row) : null
      if (href === null) return shown
      return (
        <a href={href}>
          {shown}
          <span class="unseen"> requests: {row.name}</span>
        </a>
      )
    },
    toCells: ({ figures }) => ({
      [`${title}${UNITS[kind]}`]: kind === 'money' && figures[name] !== null ? figures[name] / NANO : figures[name],
    }),
  }
}

/** The requests of a row; null if no filter has them. */
const toBehind = (by: Group, { filters, range }: Overview, { id }: BrokenDown) =>
  id === null ? null : toRequests({ ...filters, ...toSpan(range), [by]: id })

function Name({ by, of, row }: { by: Group; of: Overview; row: BrokenDown }) {
  const { id, name } = row
  const href =
    id === null
      ? null
      : by === 'owner' || by === 'user'
        ? toBehind(by, of, row)
        : toHrefWith({ [by]: id, by: by === 'model' ? 'key' : 'model' })
  return href === null ? (
    <span class="dim">{name}</span>
  ) : (
    <a class="row-link" href={href} title={name}>
      {name}
    </a>
  )
}

function Change({ now, before, change, of }: { now: number; before: number; change: number; of: Overview }) {
  if (before === 0) return <span class="dim">{now === 0 ? '–' : 'new'}</span>
  const delta = toDelta(now, before)
  return delta === null ? <Money nanoUsd={change} /> : <Compared of={delta} than={of.range.before.text} />
}

function saveRows(by: Group, columns: readonly ExportedColumn[], rows: readonly BrokenDown[]): void {
  const records = rows.map((row) => Object.assign({}, ...columns.map(({ toCells }) => toCells(row))))
  const headings = [...new Set(records.flatMap((record) => Object.keys(record)))]
  const text = toCsv(
    headings,
    records.map((record) => headings.map((heading) => record[heading] ?? null)),
  )
  save(`tollgate-by-${by}.csv`, new Blob([text], { type: 'text/csv' }))
}
