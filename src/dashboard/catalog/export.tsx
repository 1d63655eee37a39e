/** The catalogue as a file, to be read, kept and applied again. */
import { useEffect, useState } from 'preact/hooks'
import { useLoaded } from '../api/loaded.ts'
import { Code } from '../ui/copy.tsx'
import { Problem } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { readCatalog } from './data.ts'

export function ExportDrawer({ onClose }: { onClose(): void }) {
  const { data, problem, reload } = useLoaded('catalog/export', readCatalog)
  const yaml = data?.yaml ?? null
  return (
    <Overlay kind="drawer" title="Export" onClose={onClose}>
      {problem && <Problem of={problem} retry={reload} />}
      {data !== null && yaml !== null && (
        <>
          <p>
            All that the catalogue says. References to credentials are in it, credentials never are
            {data.sealed.length > 0 &&
              `: those of ${data.sealed.join(', ')} were typed in, and are to be typed in again elsewhere`}
            .
          </p>
          <Download text={yaml} />
          <Code label="The catalogue" text={yaml} />
        </>
      )}
    </Overlay>
  )
}

function Download({ text }: { text: string }) {
  const [href, setHref] = useState('')
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([text], { type: 'application/yaml' }))
    setHref(made)
    return () => URL.revokeObjectURL(made)
  }, [text])
  return (
    <p>
      <a class="button main" href={href} download="catalog.yaml">
        Download catalog.yaml
      </a>
    </p>
  )
}
