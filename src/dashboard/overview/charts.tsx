/** The overview's charts: cost, latency, and errors. */

import { batch } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { type CsvCell, capitalize, toCsv } from '../../domain/text.ts'
import { query, setQuery, toHref } from '../address/address.ts'
import { nowMs } from '../api/clock.ts'
import { toActor, toDeed, toObject } from '../audit/words.ts'
import { toDay, toExactCount, toLatency, toMoment, toMoney, toPercent } from '../figures/figures.ts'
import { toRequests } from '../reports/narrow.tsx'
import { isSystemDark, theme } from '../shell/theme.ts'
import { Button } from '../ui/controls.tsx'
import type { Overview } from './data.ts'
import { anchored, type Drawn, draw, type PlotProps, type PlotSeries, pointed } from './draw.ts'
import { type Mark, marksOf, NANO, OTHER, OTHERS, toIdAfter, UNKNOWN } from './figures.ts'
import { toPart, toQuery, toSpan } from './range.ts'
import { save } from './save.ts'

interface OverviewProps {
  of: Overview
  marks: readonly Mark[]
}

const COLORS = ['1', '2', '3', '4', '5', '6', '7', '8'].map((each) => `--series-${each}` as PlotSeries['color'])

export function CostChart({ of, marks }: OverviewProps) {
  const { costs, now, range } = of
  const [dearest] = costs
  const share = dearest && now.costNanoUsd > 0 ? dearest.total / now.costNanoUsd : 0
  const isMostly = costs.length > 1 && share > 0.4
  return (
    <Chart
      {...{ of, marks }}
      name="cost"
      kind="stack"
      height={240}
      label={`Cost by ${range.by} and model`}
      title={`${toMoney(now.costNanoUsd, now.isEstimated)} ${range.text}${isMostly ? `, ${toPercent(share)} from ${dearest?.name}` : ''}`}
      wholeText={capitalize(range.text)}
      series={costs.map(({ name, values, total, isEstimated }, at) => ({
        ...{ name, values, color: COLORS[at] ?? '--faint', total: toMoney(total, isEstimated) },
        href: name === OTHER ? null : toRequests({ ...toShown(of), model: name }),
      }))}
      valueText={(nanoUsd) => toMoney(Math.round(nanoUsd))}
      toCell={(nanoUsd) => nanoUsd / NANO}
      unit="USD"
    />
  )
}

const LATENCIES = {
  first: { text: 'Time to first token', p50: 'firstTokenP50Ms', p95: 'firstTokenP95Ms' },
  whole: { text: 'Duration', p50: 'durationP50Ms', p95: 'durationP95Ms' },
} as const

/** Time to first token, or total duration, as selected in the URL. */
export function LatencyChart({ of, marks }: OverviewProps) {
  const { columns, now, range } = of
  const shown = query.value.get('latency') === 'whole' ? 'whole' : 'first'
  const { text, p50, p95 } = LATENCIES[shown]
  const half = now[p50]
  const other = shown === 'first' ? 'whole' : 'first'
  const toLine = (name: string, color: PlotSeries['color'], field: typeof p50 | typeof p95) => ({
    ...{ name, color, values: columns.map((column) => column[field]), href: null },
    total: toText(now[field], toLatency),
  })
  return (
    <Chart
      {...{ of, marks }}
      name="latency"
      kind="lines"
      height={160}
      label={`${text} by ${range.by}`}
      title={half === null ? `${text}: no data` : `Median ${text.toLowerCase()}: ${toLatency(half)}`}
      tools={
        <Button kind="quiet" onClick={() => setQuery({ latency: other === 'whole' ? 'whole' : null })}>
          {LATENCIES[other].text}
          <span class="unseen"> instead of {text.toLowerCase()}</span>
        </Button>
      }
      wholeText={text}
      series={[toLine('p50', '--series-1', p50), toLine('p95', '--series-3', p95)]}
      valueText={toLatency}
      unit="ms"
    />
  )
}

const toText = (value: number | null | undefined, text: (value: number) => string) =>
  value == null ? '–' : text(value)

const FAILURE_COLORS = ['--bad', '--series-3', '--series-4', '--series-2', '--series-6'] as const

const isCode = (name: string) => name !== OTHERS && name !== UNKNOWN

export function FailedChart({ of, marks }: OverviewProps) {
  const { columns, now, range, failures } = of
  const bad = now.failed + now.cut
  const [first] = failures
  const isMostly = failures.length > 1 && first && isCode(first.name) && first.total > bad / 2
  const none = { name: 'failed', values: columns.map(({ requests }) => (requests === 0 ? null : 0)), total: 0 }
  return (
    <Chart
      {...{ of, marks }}
      name="errors"
      kind="stack"
      height={160}
      label={`Requests with errors by ${range.by} and error code`}
      title={
        bad === 0
          ? 'No requests had errors'
          : `${toExactCount(bad)} of ${toExactCount(now.requests)} requests had errors${isMostly ? `, mostly ${first.name}` : ''}`
      }
      wholeText="Requests"
      series={(bad === 0 ? [none] : failures).map(({ name, values, total }, at) => ({
        ...{ name, values, color: (isCode(name) && FAILURE_COLORS[at]) || '--faint', total: toExactCount(total) },
        href: bad > 0 && isCode(name) ? toRequests({ ...toShown(of), error_code: name, state: 'errors' }) : null,
      }))}
      valueText={(count) => (Number.isInteger(count) ? toExactCount(count) : '')}
      unit="requests"
    />
  )
}

/** Filters and range, as parameters of the list of requests. */
const toShown = ({ range, filters }: Overview) => ({ ...filters, ...toSpan(range) })

interface ChartSeries extends PlotSeries {
  total: string
  /** Link to its requests; null if they can't be listed. */
  href: string | null
}

interface ChartProps extends OverviewProps, Pick<PlotProps, 'label' | 'kind' | 'height' | 'valueText'> {
  /** In the URL and in the names of exported files. */
  name: string
  title: string
  series: readonly ChartSeries[]
  /** Heading of the legend when no column is selected. */
  wholeText: string
  /** Exact value in the CSV, in `unit`. */
  toCell?(value: number): CsvCell
  unit: string
  /** More buttons. */
  tools?: ComponentChildren
}

function Chart(props: ChartProps) {
  const { name, title, series, valueText, wholeText, label, marks, tools } = props
  const { columns, by } = props.of.range
  const room = useRef<HTMLElement>(null)
  const isTable = query.value.get('table') === name
  const at = pointed.value
  const isPointed = at !== null && at < columns.length
  const textAt = (values: PlotSeries['values'], column: number) => toText(values[column], valueText)
  const columnText = (column: number) => {
    const ms = columns[column] ?? 0
    return by === 'hour' ? toMoment(ms, nowMs.value, 'UTC').slice(-5) : toDay(ms, nowMs.value, 'UTC')
  }
  const plot = {
    ...{ ...props, columnText },
    describe: (column: number) =>
      `${columnText(column)}: ${series.map((one) => `${one.name} ${textAt(one.values, column)}`).join(', ')}`,
    onSelect(from: number, to: number) {
      const part = toPart(props.of.range, from, to)
      if (part) setQuery(toQuery(part.sinceMs, part.untilMs), 'push')
    },
  }
  return (
    <section ref={room} class="panel chart" aria-label={label}>
      <header class="chart-head">
        <h2>{title}</h2>
        <p class="chart-tools">
          {tools}
          <Button kind="quiet" onClick={() => setQuery({ table: isTable ? null : name })}>
            {isTable ? 'Chart' : 'Table'}
            <span class="unseen">: {label}</span>
          </Button>
          <Button kind="quiet" onClick={() => saveTable(props)}>
            CSV<span class="unseen">: {label}</span>
          </Button>
          {!isTable && (
            <Button kind="quiet" onClick={() => savePicture(props, room.current)}>
              PNG<span class="unseen">: {label}</span>
            </Button>
          )}
        </p>
      </header>
      {isTable ? (
        <Figures {...{ label, series, columnText, textAt }} of={props.of} />
      ) : (
        <>
          <Plot {...plot} />
          <p class="legend-of">{isPointed ? columnText(at) : wholeText}</p>
          <ul class="legend">
            {series.map(({ name, color, values, total, href }) => (
              <li key={name}>
                <span class={`swatch ${color.slice(2)}`} />
                <span class="legend-name" title={name}>
                  {href === null ? <span>{name}</span> : <a href={href}>{name}</a>}
                </span>
                <span class="figure-text">{isPointed ? textAt(values, at) : total}</span>
              </li>
            ))}
          </ul>
          {isPointed && <MarkLines of={marksOf(marks, at)} />}
        </>
      )}
    </section>
  )
}

const toHeading = ({ by }: Overview['range']) => (by === 'hour' ? 'Hour (UTC)' : 'Day (UTC)')

interface FiguresProps extends Pick<ChartProps, 'of' | 'label' | 'series'> {
  columnText(at: number): string
  textAt(values: PlotSeries['values'], at: number): string
}

const Figures = ({ of: { range }, label, series, columnText, textAt }: FiguresProps) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard
  <section class="chart-table" tabIndex={0} aria-label={`${label}, as a table`}>
    <table>
      <thead>
        <tr>
          <th scope="col">{toHeading(range)}</th>
          {series.map(({ name }) => (
            <th key={name} scope="col" class="figure">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {range.columns.map((ms, at) => (
          <tr key={ms}>
            <th scope="row">{columnText(at)}</th>
            {series.map(({ name, values }) => (
              <td key={name} class="figure">
                {textAt(values, at)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </section>
)

function saveTable({ of: { range }, name, series, toCell = (value) => value, unit }: ChartProps): void {
  const rows = range.columns.map((ms, at) => [
    new Date(ms).toISOString().slice(0, range.by === 'hour' ? 16 : 10),
    ...series.map(({ values }) => (values[at] == null ? null : toCell(values[at]))),
  ])
  const text = toCsv([toHeading(range), ...series.map((one) => `${one.name} (${unit})`)], rows)
  save(`tollgate-${name}.csv`, new Blob([text], { type: 'text/csv' }))
}

async function savePicture({ of: { range }, name, title, label, series }: ChartProps, room: HTMLElement | null) {
  const plot = room?.querySelector('canvas')
  if (!plot) return
  const { toPng } = await import('./png.ts')
  const legend = series.map(({ name, color, total }) => ({ name, color, text: total }))
  const picture = await toPng({ title, note: `${label}, ${range.text} (UTC)`, legend, plot })
  if (picture) save(`tollgate-${name}.png`, picture)
}

function Plot(props: PlotProps) {
  const at = useRef<HTMLDivElement>(null)
  const latest = useRef(props)
  latest.current = props
  const { label, kind, series, height, columnText, describe } = props
  const count = series[0]?.values.length ?? 0
  const drawn = JSON.stringify([kind, series, height, columnText(0)])
  const marked = JSON.stringify(props.marks.map(({ at }) => at))
  const plot = useRef<Drawn | null>(null)
  useEffect(() => {
    const room = at.current
    if (room === null) return
    let isGone = false
    void import('uplot').then(({ default: UPlot }) => {
      if (!isGone) plot.current = draw(UPlot, room, latest.current, () => latest.current.marks)
    })
    return () => {
      isGone = true
      plot.current?.end()
      plot.current = null
    }
  }, [drawn, theme.value, isSystemDark.value])

  // Marks load later and don't rebuild the chart.
  useEffect(() => plot.current?.redraw(), [marked])

  const shown = Math.min(pointed.value ?? count - 1, count - 1)
  const move = (event: KeyboardEvent) => {
    const to = { ArrowRight: shown + 1, ArrowLeft: shown - 1, Home: 0, End: count - 1 }[event.key]
    if (event.key === 'Escape') forget()
    if (event.key === 'Enter' && pointed.value !== null) {
      props.onSelect(anchored.value ?? shown, shown)
      forget()
    }
    if (to === undefined) return
    event.preventDefault()
    const next = Math.min(count - 1, Math.max(0, pointed.value === null && event.key !== 'Home' ? count - 1 : to))
    batch(() => {
      anchored.value = event.shiftKey ? (anchored.value ?? pointed.value ?? next) : null
      pointed.value = next
    })
  }
  return (
    <div
      ref={at}
      class={`plot ${kind}`}
      style={{ height: `${height}px` }}
      role="slider"
      tabIndex={0}
      aria-label={`${label}. Arrow keys move between columns, Shift selects several, Enter zooms in`}
      aria-valuemin={1}
      aria-valuemax={count}
      aria-valuenow={shown + 1}
      aria-valuetext={describe(shown)}
      onKeyDown={move}
      onBlur={forget}
    />
  )
}

const forget = () =>
  batch(() => {
    pointed.value = null
    anchored.value = null
  })

/** Marks listed per column. */
const MAX = 3

const MarkLines = ({ of: marks }: { of: readonly Mark[] }) =>
  marks.length === 0 ? null : (
    <ul class="mark-lines">
      {marks.slice(-MAX).map(({ entry }) => (
        <li key={entry.id}>
          <span class="mark" aria-hidden="true" />
          <a href={toHref(`/audit?before=${toIdAfter(entry.id)}`)}>{toMoment(entry.at_ms, nowMs.value, 'UTC')}</a>{' '}
          {toActor(entry)} {toDeed(entry)} {toObject(entry)}
        </li>
      ))}
      {marks.length > MAX && <li class="dim">and {marks.length - MAX} earlier</li>}
    </ul>
  )
