/** The pictures of the overview: what it cost, how long people waited, what failed. */

import { query, setQuery, toHref } from '../address/address.ts'
import { withQuery } from '../address/match.ts'
import { toExactCount, toLatency, toPercent } from '../figures/counts.ts'
import { toMoney } from '../figures/money.ts'
import { toDay, toMoment } from '../figures/times.ts'
import { Button } from '../ui/button.tsx'
import { nowMs } from '../ui/figure.tsx'
import { Chart } from './chart.tsx'
import type { Overview } from './data.ts'
import type { PlotSeries } from './draw.ts'
import type { Mark } from './marks.ts'
import { toPart, toQuery, toSpan } from './range.ts'
import { OTHER } from './series.ts'

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
      hrefOf={(at) => (costs[at]?.name === OTHER ? null : toRequests(of, { model: costs[at]?.name ?? null }))}
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

export function FailedChart(props: OverviewProps) {
  const { of } = props
  const { columns, now, range, failures } = of
  const bad = now.failed + now.cut
  const [first] = failures
  const isMostly = failures.length > 1 && first?.code && first.total > bad / 2
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
          : failures.map(({ name, code, values }, at) => ({
              name,
              values,
              colour: (code && FAILURE_COLOURS[at]) || '--faint',
            }))
      }
      total={(at) => toExactCount(failures[at]?.total ?? 0)}
      hrefOf={(at) => {
        const code = failures[at]?.code
        return code ? toRequests(of, { error_code: code, state: 'errors' }) : null
      }}
      valueText={(count) => (Number.isInteger(count) ? toExactCount(count) : '')}
      toCell={(count) => count}
      unit="requests"
    />
  )
}

const toWhole = ({ text }: Overview['range']) => text.replace(/^./, (letter) => letter.toUpperCase())

/** The requests of the range that a part of a chart is of. */
const toRequests = ({ range, filters }: Overview, changes: Record<string, string | null>) =>
  toHref(`/requests${withQuery(withQuery('', { ...filters, ...toSpan(range) }), changes)}`)
