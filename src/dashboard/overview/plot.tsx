/**
 * A picture of figures over time, drawn by uPlot, which is loaded when there is something to draw. Its crosshair is that of all pictures
 * of the page: the arrows move it, too. A part of it is chosen by a drag, or by the arrows with shift and then Enter.
 */
import { batch } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import { theme } from '../shell/theme.ts'
import { anchored, type Drawn, draw, type PlotProps, pointed } from './draw.ts'

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
