/** One setting: what it may be, where it is from and, for owners, its row. */
import { may } from '../api/session.ts'
import { Button } from '../ui/button.tsx'
import { Form, TextField, useForm, useOpened } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { editSetting, type Setting } from './data.ts'
import { toPlace } from './words.ts'

interface SettingDialogProps {
  of: Setting & { what: string }
  onClose(): void
}

export const SettingDialog = ({ of: setting, onClose }: SettingDialogProps) => (
  <Overlay title={setting.name} onClose={onClose}>
    <p>{setting.what}</p>
    <dl class="facts">
      <dt>In force</dt>
      <dd>{setting.value === null ? 'none' : <code>{setting.value}</code>}</dd>
      <dt>From</dt>
      <dd>{toPlace(setting)}</dd>
      <dt>Default</dt>
      <dd>{setting.default === null ? 'none' : <code>{setting.default}</code>}</dd>
    </dl>
    {may('owner') && <Edit of={setting} onClose={onClose} />}
  </Overlay>
)

function Edit({ of, onClose }: SettingDialogProps) {
  const setting = useOpened(of)
  const { name, stored, from } = setting
  // What is refused is told of by the setting's name.
  const form = useForm<Record<string, string>>({ [name]: stored ?? setting.value ?? '' }, async (values) => {
    await save(values[name]?.trim() ?? '')
  })
  const save = async (text: string | null) => {
    await editSetting(setting, text)
    tell(isOverruled ? 'Saved. It holds once what goes before it is gone.' : 'Saved. It holds from the next start on.')
    onClose()
  }
  const toDefault = () => save(null).catch((error: Error) => tell(error.message, 'bad'))
  const isOverruled = from === 'flag' || from === 'environment'
  const isChanged = (form.values.value[name]?.trim() ?? '') !== (stored ?? setting.value ?? '')
  return (
    <>
      {isOverruled && (
        <p class="note">
          The server was started with {toPlace(setting)}, which goes before what is set here. Take that away to have
          this hold.
        </p>
      )}
      <Form
        of={form}
        submit="Save"
        isReady={isChanged}
        beside={
          stored !== null && (
            <Button kind="quiet" onClick={toDefault}>
              Back to the default
            </Button>
          )
        }
      >
        <TextField
          of={form}
          name={name}
          label="Set to"
          hint={`Give ${setting.expected}. It holds from the next start of the server on.`}
          isCode
          autoFocus
        />
      </Form>
    </>
  )
}
