/**
 * A picture of figures over time, drawn by uPlot, which is loaded when there is something to draw. Its crosshair is that of all pictures
 * of the page: the arrows move it, too. A part of it is chosen by a drag, or by the arrows with shift and then Enter.
 */
import { batch, effect, signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import { colourOf, theme } from '../shell/theme.ts'
import { toStack } from './series.ts'

export interface PlotSeries {
  name: string
  colour: `--${string}`
  values: readonly (number | null)[]
}

export interface PlotProps {
  label: string
  kind: 'stack' | 'lines'
  series: readonly PlotSeries[]
  height: number
  /** What stands below a column. */
  columnText(at: number): string
  /** A value at the axis. */
  valueText(value: number): string
  /** All of a column in words, for those who hear it. */
  describe(at: number): string
  /** Some columns were chosen, from one to another. */
  onSelect?(from: number, to: number): void
}

/** The column that is pointed to, in all pictures of the page. */
export const pointed = signal<number | null>(null)
/** Where a choice of several began that is made by the keyboard. */
const anchored = signal<number | null>(null)

const LABEL_WIDTH = 64
/** px: less is a press of somebody whose hand is not still. */
const LEAST_DRAG = 6
const FONT = '12px system-ui, sans-serif'

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

export function Plot(props: PlotProps) {
  const at = useRef<HTMLDivElement>(null)
  const latest = useRef(props)
  latest.current = props
  const isDark = useSystemColours()
  const { label, kind, series, height, columnText, describe } = props
  const count = series[0]?.values.length ?? 0
  const drawn = JSON.stringify([kind, series, height, columnText(0)])
  useEffect(() => {
    const room = at.current
    if (room === null) return
    let end = () => {}
    let isGone = false
    void import('uplot').then(({ default: UPlot }) => {
      if (!isGone) end = draw(UPlot, room, latest.current)
    })
    return () => {
      isGone = true
      end()
    }
  }, [drawn, theme.value, isDark])

  const shown = Math.min(pointed.value ?? count - 1, count - 1)
  const move = (event: KeyboardEvent) => {
    const to = { ArrowRight: shown + 1, ArrowLeft: shown - 1, Home: 0, End: count - 1 }[event.key]
    if (event.key === 'Escape') forget()
    if (event.key === 'Enter' && pointed.value !== null) props.onSelect?.(anchored.value ?? shown, shown)
    if (to === undefined) return
    event.preventDefault()
    const next = Math.min(count - 1, Math.max(0, pointed.value === null ? count - 1 : to))
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

/** Returns what takes it away again. */
function draw(UPlot: typeof uPlot, room: HTMLElement, props: PlotProps): () => void {
  const plot = new UPlot(toOptions(UPlot, props, room.clientWidth), toData(props), room)
  const watching = new ResizeObserver(() => plot.setSize({ width: room.clientWidth, height: props.height }))
  watching.observe(room)
  const stop = effect(() => {
    const { value } = pointed
    plot.setCursor({ left: value === null ? -10 : plot.valToPos(value, 'x'), top: value === null ? -10 : 10 }, false)
    mark(plot, anchored.value, value)
  })
  return () => {
    stop()
    watching.disconnect()
    plot.destroy()
  }
}

/** Shows which columns are chosen; none where one end is missing. */
function mark(plot: uPlot, from: number | null, to: number | null): void {
  if (from === null || to === null) {
    if (plot.cursor.event == null) plot.setSelect({ ...plot.select, left: 0, width: 0 }, false)
    return
  }
  const left = plot.valToPos(Math.min(from, to) - 0.5, 'x')
  plot.setSelect(
    {
      left,
      width: plot.valToPos(Math.max(from, to) + 0.5, 'x') - left,
      top: 0,
      height: plot.bbox.height / devicePixelRatio,
    },
    false,
  )
}

/** Of a stack the highest first, so that those below are drawn over it. */
function toData({ kind, series }: PlotProps): uPlot.AlignedData {
  const values = kind === 'stack' ? toStack(series).reverse() : series.map((one) => [...one.values])
  return [(values[0] ?? []).map((_, at) => at), ...values]
}

function toOptions(UPlot: typeof uPlot, props: PlotProps, width: number): uPlot.Options {
  const { kind, series, height, columnText, valueText } = props
  const count = series[0]?.values.length ?? 0
  const [dim, line] = [colourOf('--dim'), colourOf('--line')]
  const axis = { stroke: dim, font: FONT, ticks: { show: false } }
  const toSeries = ({ name, colour }: PlotSeries): uPlot.Series => {
    const stroke = colourOf(colour)
    if (kind === 'lines') return { label: name, stroke, width: 2, points: { show: true, size: 5, fill: stroke } }
    const paths = UPlot.paths.bars?.({ size: [0.76, 48] })
    return { label: name, stroke, fill: stroke, width: 0, points: { show: false }, ...(paths && { paths }) }
  }
  const toTicks = (plot: uPlot) => {
    const step = Math.max(1, Math.ceil((count * LABEL_WIDTH) / Math.max(LABEL_WIDTH, plot.width - LABEL_WIDTH)))
    return Array.from({ length: Math.ceil(count / step) }, (_, at) => count - 1 - at * step).reverse()
  }
  return {
    ...{ width, height, legend: { show: false }, padding: [8, 20, 0, 0] },
    cursor: {
      drag: { x: props.onSelect !== undefined, y: false, setScale: false, dist: LEAST_DRAG },
      ...{ y: false, points: { show: kind === 'lines' } },
    },
    scales: {
      x: { time: false, range: () => [-0.5, count - 0.5] },
      y: { range: (_, __, most) => [0, (most || 1) * 1.08] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 26, splits: toTicks, values: (_, ticks) => ticks.map(columnText) },
      {
        ...axis,
        ...{ grid: { stroke: line, width: 1 }, size: LABEL_WIDTH, space: 40 },
        values: (_, ticks) => ticks.map(valueText),
      },
    ],
    series: [{}, ...(kind === 'stack' ? series.toReversed() : series).map(toSeries)],
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width } = plot.select
          if (width === 0) return
          plot.setSelect({ ...plot.select, left: 0, width: 0 }, false)
          props.onSelect?.(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'))
        },
      ],
      setCursor: [
        (plot) => {
          if (plot.cursor.event != null) pointed.value = plot.cursor.idx ?? null
        },
      ],
    },
  }
}
