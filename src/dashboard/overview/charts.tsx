/** The pictures of the overview: what it cost, how long people waited, what failed. */

import { batch } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { type CsvCell, toCsv } from '../../domain/text.ts'
import { query, setQuery, toHref } from '../address/address.ts'
import { toActor, toDeed, toObject } from '../audit/words.ts'
import { toDay, toExactCount, toLatency, toMoment, toMoney, toPercent } from '../figures/figures.ts'
import { toRequests } from '../reports/narrow.tsx'
import { theme } from '../shell/theme.ts'
import { Button } from '../ui/controls.tsx'
import { nowMs } from '../ui/figure.tsx'
import type { Overview } from './data.ts'
import { anchored, type Drawn, draw, type PlotProps, type PlotSeries, pointed } from './draw.ts'
import { type Mark, marksOf, OTHER, OTHERS, toIdAfter, UNKNOWN } from './figures.ts'
import { toPart, toQuery, toSpan } from './range.ts'

const NANO = 1e9

interface OverviewProps {
  of: Overview
  marks: readonly Mark[]
}

/** What all charts have in common: their columns. */
const toShared = ({ of: { range }, marks }: OverviewProps) => {
  const { columns, by } = range
  return {
    marks,
    spanText: range.text,
    columnText: (at: number) => {
      const text = toMoment(columns[at] ?? 0, nowMs.value, 'UTC')
      return by === 'hour' ? text.slice(-5) : toDay(columns[at] ?? 0, nowMs.value, 'UTC')
    },
    columnIso: (at: number) => new Date(columns[at] ?? 0).toISOString().slice(0, by === 'hour' ? 16 : 10),
    columnHeading: by === 'hour' ? 'Hour (UTC)' : 'Day (UTC)',
    onSelect: (from: number, to: number) => {
      const part = toPart(range, from, to)
      if (part) setQuery(toQuery(part.sinceMs, part.untilMs), 'push')
    },
  }
}

const COLOURS = ['1', '2', '3', '4', '5', '6', '7', '8'].map((each) => `--series-${each}` as PlotSeries['colour'])

export function CostChart(props: OverviewProps) {
  const { of } = props
  const { costs, now, range } = of
  const [dearest] = costs
  const share = dearest && now.costNanoUsd > 0 ? dearest.total / now.costNanoUsd : 0
  const isMostly = costs.length > 1 && share > 0.4
  return (
    <Chart
      {...toShared(props)}
      name="cost"
      kind="stack"
      height={240}
      label={`Cost by ${range.by} and model`}
      title={`${toMoney(now.costNanoUsd, now.isEstimated)} ${range.text}${isMostly ? `, ${toPercent(share)} of it ${dearest?.name}` : ''}`}
      wholeText={toWhole(range)}
      hrefOf={(at) =>
        costs[at]?.name === OTHER ? null : toRequests({ ...toShown(of), model: costs[at]?.name ?? null })
      }
      series={costs.map(({ name, values }, at) => ({ name, values, colour: COLOURS[at] ?? '--faint' }))}
      total={(at) => toMoney(costs[at]?.total ?? 0, costs[at]?.isEstimated)}
      valueText={(nanoUsd) => toMoney(Math.round(nanoUsd))}
      toCell={(nanoUsd) => nanoUsd / NANO}
      unit="USD"
    />
  )
}

const LATENCIES = {
  first: { text: 'First token', long: 'first tokens', p50: 'firstTokenP50Ms', p95: 'firstTokenP95Ms' },
  whole: { text: 'Whole request', long: 'requests', p50: 'durationP50Ms', p95: 'durationP95Ms' },
} as const

/** How long until the first token, or until the end: one of both, as the address says. */
export function LatencyChart(props: OverviewProps) {
  const { columns, now, range } = props.of
  const shown = query.value.get('latency') === 'whole' ? 'whole' : 'first'
  const { text, long, p50, p95 } = LATENCIES[shown]
  const half = now[p50]
  const other = shown === 'first' ? 'whole' : 'first'
  return (
    <Chart
      {...toShared(props)}
      name="latency"
      kind="lines"
      height={160}
      label={`${text} by ${range.by}`}
      title={half === null ? `No time of ${long} was measured` : `Half of the ${long} within ${toLatency(half)}`}
      tools={
        <Button kind="quiet" onClick={() => setQuery({ latency: other === 'whole' ? 'whole' : null })}>
          {LATENCIES[other].text}
          <span class="unseen"> instead of {text.toLowerCase()}</span>
        </Button>
      }
      wholeText={text}
      series={[
        { name: 'p50', colour: '--series-1', values: columns.map((column) => column[p50]) },
        { name: 'p95', colour: '--series-3', values: columns.map((column) => column[p95]) },
      ]}
      total={(at) => toLatencyOrNone(now[at === 0 ? p50 : p95])}
      valueText={toLatency}
      toCell={(ms) => ms}
      unit="ms"
    />
  )
}

const toLatencyOrNone = (ms: number | null) => (ms === null ? '–' : toLatency(ms))

const FAILURE_COLOURS = ['--bad', '--series-3', '--series-4', '--series-2', '--series-6'] as const

const isCode = (name: string) => name !== OTHERS && name !== UNKNOWN

export function FailedChart(props: OverviewProps) {
  const { of } = props
  const { columns, now, range, failures } = of
  const bad = now.failed + now.cut
  const [first] = failures
  const isMostly = failures.length > 1 && first && isCode(first.name) && first.total > bad / 2
  const none: PlotSeries[] = [
    { name: 'failed', colour: '--bad', values: columns.map(({ requests }) => (requests === 0 ? null : 0)) },
  ]
  return (
    <Chart
      {...toShared(props)}
      name="errors"
      kind="stack"
      height={160}
      label={`Requests that did not end well, by ${range.by} and kind`}
      title={
        bad === 0
          ? `All ${toExactCount(now.requests)} ended well`
          : `${toExactCount(bad)} of ${toExactCount(now.requests)} did not end well${isMostly ? `, mostly ${first.name}` : ''}`
      }
      wholeText="Requests"
      series={
        bad === 0
          ? none
          : failures.map(({ name, values }, at) => ({
              ...{ name, values, colour: (isCode(name) && FAILURE_COLOURS[at]) || '--faint' },
            }))
      }
      total={(at) => toExactCount(failures[at]?.total ?? 0)}
      hrefOf={(at) => {
        const code = failures[at]?.name
        return code && isCode(code) ? toRequests({ ...toShown(of), error_code: code, state: 'errors' }) : null
      }}
      valueText={(count) => (Number.isInteger(count) ? toExactCount(count) : '')}
      toCell={(count) => count}
      unit="requests"
    />
  )
}

const toWhole = ({ text }: Overview['range']) => text.replace(/^./, (letter) => letter.toUpperCase())

/** What the range and its filters leave of requests. */
const toShown = ({ range, filters }: Overview) => ({ ...filters, ...toSpan(range) })

interface ChartProps extends Omit<PlotProps, 'describe'> {
  /** In the address, and in the name of its file. */
  name: string
  title: string
  /** The time that it is of, as a part of a sentence: `in 7 days`. */
  spanText: string
  /** What the values beside the colours are of, where no column is pointed to. */
  wholeText: string
  /** Of a series in all; null for what does not add up. */
  total(series: number): string | null
  /** What columns are told apart by in the table: `Day (UTC)`. */
  columnHeading: string
  /** What stands in the file for a column. */
  columnIso(at: number): string
  /** What stands in the file, exactly: its unit is in the heading. */
  toCell(value: number): CsvCell
  unit: string
  /** Where what a series counts is looked at one by one; null for nowhere. */
  hrefOf?(series: number): string | null
  /** Beside its other buttons. */
  tools?: ComponentChildren
}

function Chart(props: ChartProps) {
  const { name, title, series, columnText, valueText, wholeText, total, label, marks, hrefOf, tools } = props
  const room = useRef<HTMLElement>(null)
  const isTable = query.value.get('table') === name
  const at = pointed.value
  const isPointed = at !== null && at < (series[0]?.values.length ?? 0)
  const textAt = (values: readonly (number | null)[], column: number) => {
    const value = values[column] ?? null
    return value === null ? '–' : valueText(value)
  }
  const describe = (column: number) =>
    `${columnText(column)}: ${series.map((one) => `${one.name} ${textAt(one.values, column)}`).join(', ')}`
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
      {isTable ? <Figures {...props} textAt={textAt} /> : <Plot {...props} describe={describe} />}
      {!isTable && (
        <>
          <p class="legend-of">{isPointed ? columnText(at) : wholeText}</p>
          <ul class="legend">
            {series.map((one, index) => (
              <li key={one.name}>
                <span class={`swatch ${one.colour.slice(2)}`} />
                <span class="legend-name" title={one.name}>
                  <Behind href={hrefOf?.(index) ?? null}>{one.name}</Behind>
                </span>
                <span class="figure-text">{isPointed ? textAt(one.values, at) : total(index)}</span>
              </li>
            ))}
          </ul>
          {isPointed && <MarkLines of={marksOf(marks, at)} />}
        </>
      )}
    </section>
  )
}

const Behind = ({ href, children }: { href: string | null; children: ComponentChildren }) =>
  href === null ? <span>{children}</span> : <a href={href}>{children}</a>

const countOf = ({ series }: Pick<ChartProps, 'series'>) => series[0]?.values.length ?? 0

const Figures = ({
  textAt,
  ...props
}: ChartProps & { textAt(values: readonly (number | null)[], at: number): string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
  <section class="chart-table" tabIndex={0} aria-label={`${props.label}, as a table`}>
    <table>
      <thead>
        <tr>
          <th scope="col">{props.columnHeading}</th>
          {props.series.map(({ name }) => (
            <th key={name} scope="col" class="figure">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {Array.from({ length: countOf(props) }, (_, at) => (
          <tr key={at}>
            <th scope="row">{props.columnText(at)}</th>
            {props.series.map(({ name, values }) => (
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

function saveTable({ name, series, columnHeading, columnIso, toCell, unit }: ChartProps): void {
  const rows = Array.from({ length: countOf({ series }) }, (_, at) => [
    columnIso(at),
    ...series.map(({ values }) => {
      const value = values[at] ?? null
      return value === null ? null : toCell(value)
    }),
  ])
  const text = toCsv([columnHeading, ...series.map((one) => `${one.name} (${unit})`)], rows)
  save(`tollgate-${name}.csv`, new Blob([text], { type: 'text/csv' }))
}

async function savePicture({ name, title, label, spanText, series, total }: ChartProps, room: HTMLElement | null) {
  const plot = room?.querySelector('canvas')
  if (!plot) return
  const { toPng } = await import('./png.ts')
  const legend = series.map((one, at) => ({ name: one.name, colour: one.colour, text: total(at) ?? '' }))
  const picture = await toPng({ title, note: `${label}, ${spanText} (UTC)`, legend, plot })
  if (picture) save(`tollgate-${name}.png`, picture)
}

/** Whether the system's colours are dark: they may change while the page is open. */
function useSystemColours(): boolean {
  const [media] = useState(() => matchMedia('(prefers-color-scheme: dark)'))
  const [isDark, setDark] = useState(media.matches)
  useEffect(() => {
    const look = () => setDark(media.matches)
    media.addEventListener('change', look)
    return () => media.removeEventListener('change', look)
  }, [media])
  return isDark
}

function Plot(props: PlotProps) {
  const at = useRef<HTMLDivElement>(null)
  const latest = useRef(props)
  latest.current = props
  const isDark = useSystemColours()
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
  }, [drawn, theme.value, isDark])

  // They are read behind the figures: the picture stays.
  useEffect(() => plot.current?.redraw(), [marked])

  const shown = Math.min(pointed.value ?? count - 1, count - 1)
  const move = (event: KeyboardEvent) => {
    const to = { ArrowRight: shown + 1, ArrowLeft: shown - 1, Home: 0, End: count - 1 }[event.key]
    if (event.key === 'Escape') forget()
    if (event.key === 'Enter' && pointed.value !== null) {
      props.onSelect?.(anchored.value ?? shown, shown)
      forget()
    }
    if (to === undefined) return
    event.preventDefault()
    const next = Math.min(count - 1, Math.max(0, pointed.value === null && event.key !== 'Home' ? count - 1 : to))
    batch(() => {
      anchored.value = event.shiftKey && props.onSelect ? (anchored.value ?? pointed.value ?? next) : null
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
      aria-label={`${label}: the arrows go from one column to the next${props.onSelect ? ', Enter shows it alone, with shift they choose several' : ''}`}
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

/** Of those that come together. */
const MOST = 3

const MarkLines = ({ of: marks }: { of: readonly Mark[] }) =>
  marks.length === 0 ? null : (
    <ul class="mark-lines">
      {marks.slice(-MOST).map(({ entry }) => (
        <li key={entry.id}>
          <span class="mark" aria-hidden="true" />
          <a href={toHref(`/audit?before=${toIdAfter(entry.id)}`)}>{toMoment(entry.at_ms, nowMs.value, 'UTC')}</a>{' '}
          {toActor(entry)} {toDeed(entry)} {toObject(entry)}
        </li>
      ))}
      {marks.length > MOST && <li class="dim">and {marks.length - MOST} before</li>}
    </ul>
  )

/** Hands something that the page has made to the browser, as a file. */
function save(name: string, content: Blob): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000)
}
