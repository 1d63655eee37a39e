/** The playground: chat with any model that one may use, or with two of them side by side. */
import { useEffect, useState } from 'preact/hooks'
import { query, setQuery, toHref } from '../address/address.ts'
import { may } from '../api/session.ts'
import { Page } from '../shell/page.tsx'
import { Button } from '../ui/button.tsx'
import { announce, Empty, Problem } from '../ui/notice.tsx'
import { CodeDialog } from './code-dialog.tsx'
import { Composer } from './composer.tsx'
import { toChosen, useModels } from './data.ts'
import { toComposer } from './focus.ts'
import { ModelsPicker } from './models-picker.tsx'
import { stopAll } from './run.ts'
import { SettingsFields } from './settings-fields.tsx'
import { bringBack, clear, cleared, isAnswering, named, thread } from './state.ts'
import { ThreadView } from './thread-view.tsx'

export function PlaygroundPage() {
  const { data: models, problem, reload } = useModels()
  const [isCode, setCode] = useState(false)
  useEffect(() => {
    document.addEventListener('keydown', stopByKey)
    return () => document.removeEventListener('keydown', stopByKey)
  }, [])
  const chosen = toChosen(models ?? [])
  useEffect(() => keepNamed(chosen), [`${chosen}`, query.value, thread.value.length > 0])
  const actions = (
    <>
      <Button icon="code" disabled={chosen.length === 0} onClick={() => setCode(true)}>
        As code
      </Button>
      <Button icon="remove" disabled={thread.value.length === 0} onClick={clearAll}>
        Clear
      </Button>
    </>
  )
  return (
    <Page title="Playground" actions={actions}>
      {problem && <Problem of={problem} retry={reload} />}
      {models !== null && chosen.length === 0 && <NoModels />}
      {models !== null && chosen.length > 0 && (
        <div class="play">
          <p class="dim">
            Nothing here is kept: once this tab is closed or loaded anew, it is gone. What it costs is on record.
          </p>
          <section class="panel play-setup" aria-label="What is asked of whom">
            <ModelsPicker models={models} chosen={chosen} />
            <SettingsFields />
          </section>
          {thread.value.length === 0 ? <Nothing /> : <ThreadView models={models} chosen={chosen} />}
          <Composer models={models} chosen={chosen} />
        </div>
      )}
      {isCode && <CodeDialog chosen={chosen} onClose={() => setCode(false)} />}
    </Page>
  )
}

/** Whoever comes by a link that names no model goes on with those that they had; and a thread stays with those that it was begun with. */
function keepNamed(chosen: readonly string[]): void {
  const isNamed = query.value.has('model')
  if (isNamed || (named.value.length === 0 && thread.value.length > 0)) named.value = chosen
  const [model, beside = null] = named.value
  if (model !== undefined && !isNamed) setQuery({ model, beside })
}

function stopByKey(event: KeyboardEvent): void {
  if (event.key !== 'Escape' || event.defaultPrevented || document.querySelector('dialog[open]')) return
  if (isAnswering.value) stopAll()
}

function clearAll(): void {
  clear()
  announce('The thread is cleared.')
  toComposer()
}

function undoClear(): void {
  bringBack()
  toComposer()
}

const Nothing = () => (
  <div class="play-nothing">
    <p>What you write goes to the model, and its answer comes here as it is written.</p>
    {cleared.value !== null && cleared.value.length > 0 && (
      <Button icon="again" onClick={undoClear}>
        Bring back what was cleared
      </Button>
    )}
  </div>
)

const NoModels = () => (
  <Empty title="No model to try">
    <p>
      {may('editor') ? (
        <>
          Once there is a model, it can be tried here. <a href={toHref('/models')}>Look at the models</a>
        </>
      ) : (
        'Once your team may use a model, it can be tried here. An owner or an editor says which.'
      )}
    </p>
  </Empty>
)
