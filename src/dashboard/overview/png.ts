/** Exports a chart as PNG with title and legend, in the page's current colors. */
import { colorOf } from '../shell/theme.ts'

interface Pictured {
  title: string
  /** `Cost by day and model, in 7 days (UTC)` */
  note: string
  legend: readonly { name: string; color: `--${string}`; text: string }[]
  plot: HTMLCanvasElement
}

const PAD = 24
const LINE = 22
const TITLE = '600 16px system-ui, sans-serif'
const TEXT = '13px system-ui, sans-serif'
/** px: room for a title beside a small plot. */
const MIN_WIDTH = 640
/** px of a legend column. */
const MIN_COLUMN = 260
const SWATCH = 10

export function toPng({ title, note, legend, plot }: Pictured): Promise<Blob | null> {
  const scale = devicePixelRatio
  const width = Math.max(MIN_WIDTH, plot.width / scale + 2 * PAD)
  const columns = Math.max(1, Math.floor((width - 2 * PAD) / MIN_COLUMN))
  const top = PAD + 2 * LINE + 8
  const below = top + plot.height / scale + 12
  const canvas = document.createElement('canvas')
  canvas.width = width * scale
  canvas.height = (below + Math.ceil(legend.length / columns) * LINE + PAD) * scale
  const draw = canvas.getContext('2d')
  if (draw === null) return Promise.resolve(null)
  draw.scale(scale, scale)
  draw.fillStyle = colorOf('--panel')
  draw.fillRect(0, 0, width, canvas.height)
  draw.textBaseline = 'middle'
  const write = (
    text: string,
    x: number,
    y: number,
    { font = TEXT, color = '--text', most = width - x - PAD } = {},
  ) => {
    draw.font = font
    draw.fillStyle = colorOf(color as `--${string}`)
    draw.fillText(fit(draw, text, most), x, y)
  }
  write(title, PAD, PAD + LINE / 2, { font: TITLE })
  write(note, PAD, PAD + 1.5 * LINE, { color: '--dim' })
  draw.drawImage(plot, PAD, top, plot.width / scale, plot.height / scale)
  const column = (width - 2 * PAD) / columns
  for (const [at, { name, color, text }] of legend.entries()) {
    const [x, y] = [PAD + (at % columns) * column, below + Math.floor(at / columns) * LINE + LINE / 2]
    draw.fillStyle = colorOf(color)
    draw.fillRect(x, y - SWATCH / 2, SWATCH, SWATCH)
    write(text === '' ? name : `${name}  ${text}`, x + SWATCH + 8, y, { most: column - SWATCH - 16 })
  }
  return new Promise((resolve) => canvas.toBlob(resolve, 'image/png'))
}

function fit(draw: CanvasRenderingContext2D, text: string, most: number): string {
  if (draw.measureText(text).width <= most) return text
  let end = text.length
  while (end > 1 && draw.measureText(`${text.slice(0, end)}…`).width > most) end--
  return `${text.slice(0, end)}…`
}
